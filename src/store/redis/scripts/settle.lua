-- Says what becomes of claimed tasks. One that is not as it was claimed stays: a commit in between knew better.
--
-- KEYS  header · schedule · records · keys that were asked for · rings
-- ARGV  1 known epoch · 2 namespace · 3 how many records the rings hold at least, or '': nobody is rung
--       then (key, until when its task was held, when to look again or '' if it is over, d or s or t: what it is now, record or '')…
-- Reply {'ok'}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end

-- The key's task of this kind that was held until then.
local function claimed(letters, name, held)
  for letter in string.gmatch(letters, '%a') do
    local score = redis.call('ZSCORE', KEYS[2], letter .. name)
    if score and tonumber(score) == held then return letter .. name end
  end
end

for i = 4, #ARGV, 5 do
  local name, at, letter = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local planned = letter ~= 'd'
  -- It may have been given out since it was claimed.
  local member = claimed(planned and 'st' or 'd', name, tonumber(ARGV[i + 1]))
  if member and at == '' then
    redis.call('ZREM', KEYS[2], member)
    if planned then
      redis.call('HDEL', KEYS[3], name)
    else
      redis.call('SREM', KEYS[4], ARGV[2] .. '/' .. name)
    end
  elseif member then
    if member ~= letter .. name then redis.call('ZREM', KEYS[2], member) end
    redis.call('ZADD', KEYS[2], at, letter .. name)
    if planned then redis.call('HSET', KEYS[3], name, ARGV[i + 4]) end
  end
end
if ARGV[3] ~= '' then redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[3], '*', 'd', ARGV[2]) end
return {'ok'}
