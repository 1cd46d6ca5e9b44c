-- The entry of a key as it is now.
--
-- KEYS  header · entry · value · generations · waited-for mark
-- ARGV  1 known epoch · 2 flags: b the bytes too, r somebody is parked: the next commit rings · 3 namespace
--       4 packed tags whose generations matter · 5 how long the mark lasts, ms
-- Reply as of `current`, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
if string.find(ARGV[2], 'r', 1, true) then redis.call('SET', KEYS[5], '1', 'PX', ARGV[5]) end
local e, warning = read(KEYS[2], h.id)
return current(h, e, warning, KEYS[3], string.find(ARGV[2], 'b', 1, true), KEYS[4], ARGV[3], ARGV[4])
