-- Takes tasks that are due, so that nobody else sees them for a while. See schedule.lua for what a schedule is.
--
-- KEYS  header · schedule · records · keys that were asked for
-- ARGV  1 known epoch · 2 namespace · 3 hold, µs · 4 so many at the most · 5 so many are looked at besides
--       6 and 7 after so long, µs, a key's own and a planned task that nobody takes are taken out · then the prefixes of keys; none: all
-- Reply {'ok', now, when the next is due or '', (task, when it was due, '1' if it was asked for, record or '')…}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local most = tonumber(ARGV[4])
local bound = tonumber(ARGV[5]) + most

local function takes(name)
  if #ARGV < 8 then return true end
  for i = 8, #ARGV do
    if string.sub(name, 1, #ARGV[i]) == ARGV[i] then return true end
  end
  return false
end

local taken, late, looked, next_due = {}, {}, 0, ''
while next_due == '' do
  local page = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'WITHSCORES', 'LIMIT', looked, 256)
  for i = 1, #page, 2 do
    if #taken >= most or looked >= bound then
      next_due = text(tonumber(page[i + 1]))
      break
    end
    looked = looked + 1
    local member, due = page[i], tonumber(page[i + 1])
    if takes(string.sub(member, 2)) then
      taken[#taken + 1] = {member, due}
    elseif due + tonumber(ARGV[string.sub(member, 1, 1) == 'd' and 6 or 7]) <= now then
      late[#late + 1] = member
    end
  end
  if #page < 512 then break end
end
if next_due == '' then
  local after = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. text(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if after[2] then next_due = text(tonumber(after[2])) end
end
for _, member in ipairs(late) do
  redis.call('ZREM', KEYS[2], member)
  if string.sub(member, 1, 1) ~= 'd' then redis.call('HDEL', KEYS[3], string.sub(member, 2)) end
end
local reply = {'ok', text(now), next_due}
for _, one in ipairs(taken) do
  local member, name = one[1], string.sub(one[1], 2)
  local planned = string.sub(member, 1, 1) ~= 'd'
  local record = planned and redis.call('HGET', KEYS[3], name) or ''
  if planned and not record then
    redis.call('ZREM', KEYS[2], member)
  else
    redis.call('ZADD', KEYS[2], text(now + tonumber(ARGV[3])), member)
    local asked = planned and 0 or redis.call('SREM', KEYS[4], ARGV[2] .. '/' .. name)
    reply[#reply + 1] = member
    reply[#reply + 1] = text(one[2])
    reply[#reply + 1] = text(asked)
    reply[#reply + 1] = record
  end
end
return reply
