-- A replica has workers for namespaces: for a while, commits of these keep the schedule.
--
-- KEYS  header
-- ARGV  1 known epoch · 2 for how long, µs · 3 what the name of a schedule begins with · 4 a schedule lives on for so long, ms
--       then the namespaces
-- Reply {'ok'}, or as of `open`. Schedules share the header's slot.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local until_ = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if string.sub(all[i], 1, 3) == 'wk:' then
    until_[all[i]] = tonumber(all[i + 1])
    if tonumber(all[i + 1]) <= now then redis.call('HDEL', KEYS[1], all[i]) end
  end
end
for i = 5, #ARGV do
  local field, lasts = 'wk:' .. ARGV[i], now + tonumber(ARGV[2])
  if lasts > (until_[field] or 0) then redis.call('HSET', KEYS[1], field, text(lasts)) end
  redis.call('PEXPIRE', ARGV[3] .. ARGV[i], ARGV[4])
end
return {'ok'}
