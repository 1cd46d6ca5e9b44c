-- Accepts a new primary: the log begins a new epoch, above every position that the lost writes may have taken.
--
-- KEYS  header
-- ARGV  1 epoch that the caller knew · 2 a number that the sequence exceeds from now on
-- Reply {'ok', epoch, now, 1 if it was this call}; {'replica'}; {'headless'}.
--
-- Before it is called the caller has committed again what it knows of the last minute's invalidations (`restore`).

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then return {'replica'} end
local h = redis.call('HMGET', KEYS[1], 'id', 'rid', 'ep', 's', 'p')
if not h[1] then return {'headless'} end
local rid = string.match(info, 'master_replid:(%x+)')
if rid == h[2] then return {'ok', h[3], text(now), '0'} end
local epoch = text(math.max(tonumber(h[3]) + 1, now))
redis.call('HSET', KEYS[1], 'rid', rid, 'ep', epoch, 's', text(math.max(tonumber(h[4] or 0), tonumber(ARGV[2]))),
  'p', text(math.max(tonumber(h[5] or 0) + 1, now)))
return {'ok', epoch, text(now), '1'}
