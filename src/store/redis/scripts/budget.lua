-- A place in the rebuild budget of a namespace, in its home partition.
--
-- KEYS  header · places: a sorted set of keys by when each place comes back by itself, µs · claims: a hash by key · mark: somebody waits
--       for a place · rings
-- ARGV  1 known epoch · 2 verb: t take, h hold, g give back, l leave · 3 namespace/key · 4 secret of the lease
--       5 take: how many places there are · 6 take, hold: for how long, give back: for how long it is left to whoever comes next, µs
--       7 hold: secret of the lease that is over by this, or 0 · 8 take: 1 if others wait too
--       9 how many records the rings hold at least · 10 under which name it rings · 11 how long the mark lasts, ms
--       12 hold: not beyond this, µs
-- Reply {'ok', now, 1 if the key has a place that was asked for, how many are taken, when the next comes back or ''}, or as of `open`.
--
-- The claims of a key are "secret until" pairs; its place lasts as long as the last of them. The secret 0 is whoever comes next.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local places, claims, name, lease = KEYS[2], KEYS[3], ARGV[3], ARGV[4]

local before = redis.call('ZCARD', places)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', places, '-inf', text(now))) do
  redis.call('ZREM', places, gone)
  redis.call('HDEL', claims, gone)
end
local score = redis.call('ZSCORE', places, name)
local ends = redis.call('ZRANGE', places, 0, 0, 'WITHSCORES')[2]

-- The key's claims but for two, and one more.
local function change(one, other, more, till)
  local list, last, known = {}, 0, score and redis.call('HGET', claims, name)
  -- The claims may have been evicted without the places: then nobody can give this one back, and it goes with its time.
  if score and not known then known = '1 ' .. text(tonumber(score)) end
  if more then known = (known or '') .. ' ' .. more .. ' ' .. text(till) end
  for secret, at in string.gmatch(known or '', '(%d+) (%d+)') do
    local new = secret == more and tonumber(at) == till
    if tonumber(at) > now and (new or (secret ~= one and secret ~= other)) then
      list[#list + 1] = secret .. ' ' .. at
      last = math.max(last, tonumber(at))
    end
  end
  if last == 0 then
    redis.call('ZREM', places, name)
    redis.call('HDEL', claims, name)
    return
  end
  redis.call('ZADD', places, text(last), name)
  redis.call('HSET', claims, name, table.concat(list, ' '))
  local farthest = tonumber(redis.call('ZREVRANGE', places, 0, 0, 'WITHSCORES')[2])
  for i = 2, 3 do redis.call('PEXPIREAT', KEYS[i], text(math.ceil(farthest / 1000) + 60000)) end
end

local has, limit, length = 0, tonumber(ARGV[5]), tonumber(ARGV[6])
if ARGV[2] == 't' then
  if score or redis.call('ZCARD', places) < limit then
    change('0', lease, lease, now + length)
    has = 1
  end
  if ARGV[8] == '1' or (has == 0 and limit > 0) then redis.call('SET', KEYS[4], '1', 'PX', ARGV[11]) end
elseif ARGV[2] == 'h' then
  for secret, at in string.gmatch(score and redis.call('HGET', claims, name) or '', '(%d+) (%d+)') do
    if (secret == lease or secret == ARGV[7]) and tonumber(at) > now then has = 1 end
  end
  if has == 1 then change(ARGV[7], lease, lease, math.min(now + length, tonumber(ARGV[12]))) end
elseif score then
  if ARGV[2] == 'l' then lease = '0' end
  local known = ' ' .. (redis.call('HGET', claims, name) or '')
  if string.find(known, ' ' .. lease .. ' ', 1, true) then
    local others = false
    for secret, at in string.gmatch(known, '(%d+) (%d+)') do
      others = others or (secret ~= lease and secret ~= '0' and tonumber(at) > now)
    end
    if ARGV[2] == 'g' and length > 0 and not others then
      change(lease, '0', '0', now + length)
    else
      change(lease, lease)
    end
  end
end

local taken = redis.call('ZCARD', places)
local first = redis.call('ZRANGE', places, 0, 0, 'WITHSCORES')[2]
-- Whoever was refused counts on the first place to come back: a renewal, or a lease instead of another, may be shorter than what it replaces.
local sooner = ends and first and tonumber(first) < tonumber(ends)
if (sooner or taken < before) and redis.call('DEL', KEYS[4]) == 1 then
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[9], '*', 'k', ARGV[10])
end
return {'ok', text(now), text(has), text(taken), first and text(tonumber(first)) or ''}
