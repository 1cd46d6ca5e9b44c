-- Plans refreshes of one namespace: a key that is planned stays so, at the earlier of its times.
--
-- The schedule of a namespace is a sorted set of tasks by when they are due, µs:
--   d<key>  the key's own refresh: commit.lua keeps it
--   s<key>  planned, and not given out yet
--   t<key>  planned, and given out: to be looked at when its lease ends
-- and a hash with the record of each planned key, of which this script knows no more than that the first word is the time that it was
-- planned for, and the second '1' where a fresh value will do.
--
-- KEYS  header · schedule · records · rings
-- ARGV  1 known epoch · 2 namespace · 3 so many may be planned · 4 what is near, µs · 5 how many records the rings hold at least
--       6 '1': a fresh value will do · 7 the rest of a new record · 8 the tasks may be forgotten after so long, ms
--       then (key, µs from now)…
-- Reply {'ok', new, known, refused}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local planned, most = redis.call('HLEN', KEYS[3]), tonumber(ARGV[3])
local new, known, refused, near = 0, 0, 0, false
for i = 9, #ARGV, 2 do
  local name, at = ARGV[i], now + tonumber(ARGV[i + 1])
  local record = redis.call('HGET', KEYS[3], name)
  local score = record and redis.call('ZSCORE', KEYS[2], 's' .. name)
  if score then
    local for_when, will_do, rest = string.match(record, '^(%d+) (%d) (.*)$')
    local moved = at < tonumber(score)
    if moved then redis.call('ZADD', KEYS[2], text(at), 's' .. name) end
    if for_when and (at < tonumber(for_when) or (will_do == '1' and ARGV[6] ~= '1')) then
      for_when = text(math.min(at, tonumber(for_when)))
      if ARGV[6] ~= '1' then will_do = '0' end
      redis.call('HSET', KEYS[3], name, for_when .. ' ' .. will_do .. ' ' .. rest)
    end
    near = near or (moved and at < now + tonumber(ARGV[4]))
    known = known + 1
  elseif record and redis.call('ZSCORE', KEYS[2], 't' .. name) then
    known = known + 1
  elseif planned >= most then
    refused = refused + 1
  else
    redis.call('ZADD', KEYS[2], text(at), 's' .. name)
    redis.call('HSET', KEYS[3], name, text(at) .. ' ' .. ARGV[6] .. ' ' .. ARGV[7])
    near = near or at < now + tonumber(ARGV[4])
    planned, new = planned + 1, new + 1
  end
end
for i = 2, 3 do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[8]) then redis.call('PEXPIRE', KEYS[i], ARGV[8]) end
end
if near then redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[5], '*', 'd', ARGV[2]) end
return {'ok', text(new), text(known), text(refused)}
