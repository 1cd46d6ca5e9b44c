-- The namespaces in which refreshes are planned.
--
-- KEYS  header · plans
-- ARGV  1 known epoch · 2 a namespace to add, or '' · 3 for so long, µs
-- Reply {'ok', namespace…}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
if ARGV[2] ~= '' then
  local until_ = now + tonumber(ARGV[3])
  local before = redis.call('ZSCORE', KEYS[2], ARGV[2])
  if not before or tonumber(before) < until_ then redis.call('ZADD', KEYS[2], text(until_), ARGV[2]) end
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
end
local reply = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(now), '+inf')
table.insert(reply, 1, 'ok')
return reply
