-- Makes everything with a tag, or a whole namespace, old in this partition.
--
-- KEYS  header · generations · their ages · log
-- ARGV  1 known epoch · 2 field: namespace, or namespace/tag · 3 d or e: the mode · 4 settle, µs · 5 the number exceeds this
--       6 this number and no other, and the generation is only raised to it; '' for the next one. Nobody is told of what was known
--       7 how many generations are kept · 8 how many soft invalidations of one are kept apart · 9 how long a generation is kept, µs
--       10 the event, or '' in any partition but the home one · 11 how many records the log holds at least
-- Reply {'ok', number, now, position or 0}, or as of `open`.
--
-- Where more than so many soft invalidations of one tag meet, two become one; where more than so many generations meet, the oldest is
-- forgotten and the floor rises to it. Both make more old than was asked for, never less.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local field = ARGV[2]
local number = ARGV[6] == '' and take(h, tonumber(ARGV[5])) or tonumber(ARGV[6])

if h.any and redis.call('EXISTS', KEYS[2]) == 0 then
  -- Evicted: see `generations`.
  h.floor = text(h.s)
  redis.call('HSET', KEYS[1], 'fl', h.floor)
  redis.call('DEL', KEYS[3])
end
local newest, dropped, settle, soft = 0, 0, 0, {}
local known = redis.call('HGET', KEYS[2], field)
if known then
  local words = {}
  for word in string.gmatch(known, '%d+') do words[#words + 1] = tonumber(word) end
  newest, dropped, settle = words[1], words[2], words[3]
  for i = 4, #words, 2 do soft[#soft + 1] = {words[i], words[i + 1]} end
end
local raised = true
if number > newest then
  if ARGV[3] == 'd' then
    dropped, soft = number, {}
  else
    soft[#soft + 1] = {number, now}
    if #soft > tonumber(ARGV[8]) then
      -- As `Generation::expire` does: the two closest in time become one with the later number and the earlier time.
      local closest, least = 2, math.huge
      for i = 2, #soft do
        local apart = math.max(soft[i][2] - soft[i - 1][2], 0)
        if apart < least then closest, least = i, apart end
      end
      soft[closest][2] = math.min(soft[closest][2], soft[closest - 1][2])
      table.remove(soft, closest - 1)
    end
  end
  newest = number
elseif ARGV[3] == 'd' and number > dropped then
  dropped = number
else
  raised = false
end
settle = math.max(settle, now + tonumber(ARGV[4]))
local words = {text(newest), text(dropped), text(settle)}
for _, pair in ipairs(soft) do
  if pair[1] > dropped then
    words[#words + 1] = text(pair[1])
    words[#words + 1] = text(pair[2])
  end
end
redis.call('HSET', KEYS[1], 'gn', '1')
redis.call('HSET', KEYS[2], field, table.concat(words, ' '))
redis.call('ZADD', KEYS[3], text(newest), field)

for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', text(now - tonumber(ARGV[9])), 'LIMIT', 0, 16)) do
  redis.call('ZREM', KEYS[3], old)
  redis.call('HDEL', KEYS[2], old)
end
while redis.call('ZCARD', KEYS[3]) > tonumber(ARGV[7]) do
  local oldest = redis.call('ZPOPMIN', KEYS[3])
  redis.call('HDEL', KEYS[2], oldest[1])
  if tonumber(oldest[2]) > tonumber(h.floor) then
    h.floor = text(tonumber(oldest[2]))
    redis.call('HSET', KEYS[1], 'fl', h.floor)
  end
end

if ARGV[10] == '' or not raised then return {'ok', text(number), text(now), '0'} end
-- Of one target, numbers are told in their order: what is committed again has one of its own there.
local told = ARGV[6] == '' and number or take(h, tonumber(ARGV[5]))
append(h, KEYS[4], 'lp', ARGV[11], told, ARGV[10])
return {'ok', text(number), text(now), text(h.p)}
