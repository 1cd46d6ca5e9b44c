-- Callers have asked for keys: remembered for those whose own refresh is scheduled.
--
-- KEYS  header · keys that were asked for
-- ARGV  1 known epoch · 2 what the name of a schedule begins with · 3 the marks live on for so long, ms · then namespace/key…
-- Reply {'ok'}, or as of `open`. Schedules share the header's slot.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
for i = 4, #ARGV do
  local namespace, name = string.match(ARGV[i], '^([^/]*)/(.*)$')
  if name and redis.call('ZSCORE', ARGV[2] .. namespace, 'd' .. name) then redis.call('SADD', KEYS[2], ARGV[i]) end
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'ok'}
