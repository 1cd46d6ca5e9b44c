-- Gives a partition its header, if it has none.
--
-- KEYS  header · generations · their ages · log · log of Refreshed · leases
-- ARGV  1 id, 8 random bytes · 2 a number that the sequence exceeds · 3 how many partitions the store has
-- Reply {'ok', epoch, now}; {'replica'}.
--
-- Positions begin at the time, so that none is taken twice. What an earlier life has left counts as missing, so it goes at once: generations, and a log whose positions begin anew.

local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master', 1, true) then return {'replica'} end
local known = redis.call('HGET', KEYS[1], 'ep')
if known then return {'ok', known, text(now)} end
redis.call('HSET', KEYS[1], 'id', ARGV[1], 'rid', string.match(info, 'master_replid:(%x+)'), 'ep', text(now),
  's', text(math.max(now, tonumber(ARGV[2]))), 'p', text(now), 'lp', text(now), 'rp', text(now), 'n', ARGV[3])
redis.call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6])
return {'ok', text(now), text(now)}
