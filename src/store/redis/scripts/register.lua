-- Writes what a replica says of itself, and reads what all of them say.
--
-- KEYS  header · registrations · plans
-- ARGV  1 known epoch · 2 replica, or '' to read only · 3 for how long it holds, µs · 4 what it says
-- Reply {'ok', how many namespaces have planned refreshes, their names…, (replica, what is left, µs, what it says)…}, or as of `open`. What
-- has lapsed is taken out.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[2], struct.pack('>I8', now + tonumber(ARGV[3])) .. ARGV[4])
  redis.call('PEXPIRE', KEYS[2], '3600000')
end
local reply = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. text(now), '+inf')
table.insert(reply, 1, 'ok')
table.insert(reply, 2, text(#reply - 1))
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local until_ = #all[i + 1] >= 8 and struct.unpack('>I8', all[i + 1]) or 0
  if until_ > now then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = text(until_ - now)
    reply[#reply + 1] = string.sub(all[i + 1], 9)
  elseif ARGV[2] ~= '' then
    redis.call('HDEL', KEYS[2], all[i])
  end
end
return reply
