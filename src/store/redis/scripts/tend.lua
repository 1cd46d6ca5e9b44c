-- Looks after a partition: what is old leaves, what is in use lives on, and the caller learns how the log is.
--
-- KEYS  header · generations · their ages · log · log of Refreshed · rings · leases · registrations
-- ARGV  1 known epoch · 2 w: somebody reads Refreshed · 3 for how long they are recorded after that was last said, µs
--       4 how long the log is kept, µs · 5 how many replicas the primary must see, or '' · 6 the record that begins Refreshed
--       7 how many records the log of Refreshed holds at least
-- Reply {'ok', id, epoch, now, position, last record of the log, last record of the log of Refreshed, how many partitions
-- there are}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local header = KEYS[1]
if ARGV[5] ~= '' then redis.call('HSET', header, 'min', ARGV[5]) else redis.call('HDEL', header, 'min') end

-- What nobody writes to any more is gone after these: a log an hour, an entry's index 62 days (no lifetime is longer), a header 90.
for i, hours in ipairs({2160, 2160, 2160, 1, 1, 1, 1488, 1}) do
  redis.call('PEXPIRE', KEYS[i], text(hours * 3600000))
end
-- Ages without their generations or the other way round: one was evicted.
if redis.call('HLEN', KEYS[2]) ~= redis.call('ZCARD', KEYS[3]) then
  redis.call('HSET', header, 'fl', text(h.s))
  redis.call('HDEL', header, 'gn')
  redis.call('DEL', KEYS[2], KEYS[3])
end
redis.call('ZREMRANGEBYSCORE', KEYS[7], '-inf', text(now / 1000))

if ARGV[2] == 'w' then
  local off = now >= h.wr
  redis.call('HSET', header, 'wr', text(now + tonumber(ARGV[3])))
  -- What went by unrecorded is a hole: this record names none before it but itself.
  if off then append(h, KEYS[5], 'rp', ARGV[7], 0, ARGV[6], h.p + 1) end
end

-- Marks of where the log stood when: one a minute; what lies before the newest that is old enough may go.
local marks, last, keep = {}, 0, 0
for position, at in string.gmatch(redis.call('HGET', header, 'mk') or '', '(%d+)@(%d+)') do
  last = tonumber(at)
  if last <= now - tonumber(ARGV[4]) then
    marks, keep = {}, tonumber(position)
  else
    marks[#marks + 1] = position .. '@' .. at
  end
end
if keep > 0 then
  redis.call('XTRIM', KEYS[4], 'MINID', text(keep + 1) .. '-0')
  redis.call('XTRIM', KEYS[5], 'MINID', text(keep + 1) .. '-0')
end
if now - last >= 60000000 then marks[#marks + 1] = text(h.p) .. '@' .. text(now) end
redis.call('HSET', header, 'mk', table.concat(marks, ' '))

return {'ok', h.id, h.epoch, text(now), text(h.p), h.lp, h.rp, redis.call('HGET', header, 'n') or '0'}
