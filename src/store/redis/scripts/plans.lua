-- Refreshes are planned in a namespace.
--
-- KEYS  header · plans
-- ARGV  1 known epoch · 2 namespace · 3 for so long, µs
-- Reply {'ok', all such namespaces…}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
redis.call('ZADD', KEYS[2], 'GT', text(now + tonumber(ARGV[3])), ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', text(now))
local reply = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(reply, 1, 'ok')
return reply
