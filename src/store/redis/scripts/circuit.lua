-- The circuit of a namespace, in its home partition: compare and set.
--
-- KEYS  header · circuit · rings
-- ARGV  1 known epoch · 2 w to write, r to read · 3 expected, '' for none · 4 new · 5 how many records the rings hold at least
--       6 under which name it rings · 7 how long it is kept, ms
-- Reply {'ok', now, how it is then}, or as of `open`.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local is = redis.call('GET', KEYS[2]) or ''
if ARGV[2] == 'w' and is == ARGV[3] and is ~= ARGV[4] then
  is = ARGV[4]
  redis.call('SET', KEYS[2], is, 'PX', ARGV[7])
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*', 'k', ARGV[6])
end
return {'ok', text(now), is}
