-- Writes an entry and its events, if nothing that the decision relied on has changed.
--
-- KEYS  header · entry · value · generations · log · log of Refreshed · rings · waited-for mark · leases · schedule · keys asked for
-- ARGV  1 known epoch
--       2 flags: n takes a number, d there is a draft, k/p/c bytes are kept, put, cleared, l/u the leases' index gains or loses the
--         key, b a conflict brings the bytes, g there is a guard, e there is no lease any more, v the value is new
--       3 expected revision, 0 for none · 4 not before, µs or '' · 5 until, µs or '' · 6 the number exceeds this
--       7 the newest generation that the guard allows · 8 packed tags of the guard · 9 namespace · 10 namespace/key
--       11 the bytes, or '' · 12 the entry is kept for so many µs from now · 13 and until this, µs
--       14 how many records the streams hold at least: log · 15 Refreshed · 16 rings
--       17 and 18 the key's task: µs from now or '', but not later than that or ''; both '': none · 19 near is so near, µs
--       20 somebody waits for the next commit, for so long, ms, or '0'
--       21 how many events, then each: m or r (which stream), and as of `stamped`; then the draft as of `stamped`
-- Reply {'ok', number or 0, now, revision, position or 0}; as of `current` where something has changed; as of `open`.

local h, problem = open(KEYS[1], ARGV[1], 'wk:' .. ARGV[9])
if problem then return problem end
local flags = ARGV[2]
local function has(flag) return string.find(flags, flag, 1, true) end

local e, warning = read(KEYS[2], h.id)
local before = revision(e)
local holds = text(before) == ARGV[3]
  and (ARGV[4] == '' or now >= tonumber(ARGV[4]))
  and (ARGV[5] == '' or now < tonumber(ARGV[5]))
if holds and has('g') then
  local newest = tonumber(ARGV[7])
  local known = generations(h, KEYS[4], ARGV[9], ARGV[8], false, {})
  holds = tonumber(h.floor) <= newest
  for i = 2, #known, 2 do
    if tonumber(string.match(known[i], '^%d+')) > newest then holds = false end
  end
end
if not holds then
  return current(h, e, warning, KEYS[3], has('b'), KEYS[4], ARGV[9], ARGV[8])
end

-- Every path below begins with a write that a full Redis refuses, so that it refuses all of them or none.
local number = 0
if has('n') then number = take(h, tonumber(ARGV[6])) end
local after = math.max(before + 1, now)
local at = 22
local logged = 0
for _ = 1, tonumber(ARGV[21]) do
  local stream = ARGV[at]
  local event
  event, at = stamped(at + 1, number)
  if stream == 'm' then
    append(h, KEYS[5], 'lp', ARGV[14], number, event)
    logged = h.p
  elseif now < h.wr then
    append(h, KEYS[6], 'rp', ARGV[15], number, event)
    logged = h.p
  end
end
local gone = math.max(now + tonumber(ARGV[12]), tonumber(ARGV[13]))
if has('d') and gone > now then
  local facts = stamped(at, number)
  gone = text(math.ceil(gone / 1000))
  redis.call('SET', KEYS[2], string.sub(facts, 1, 1) .. struct.pack('>I8', after) .. h.id .. string.sub(facts, 2), 'PXAT', gone)
  if has('p') then
    redis.call('SET', KEYS[3], ARGV[11], 'PXAT', gone)
  elseif has('c') or not e then
    redis.call('DEL', KEYS[3])
  else
    redis.call('PEXPIREAT', KEYS[3], gone)
  end
  if has('l') then redis.call('ZADD', KEYS[9], gone, ARGV[10]) end
else
  redis.call('DEL', KEYS[2], KEYS[3])
end
if has('u') then redis.call('ZREM', KEYS[9], ARGV[10]) end
if redis.call('DEL', KEYS[8]) == 1 then
  redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[16], '*', 'k', ARGV[10])
end
if ARGV[20] ~= '0' then redis.call('SET', KEYS[8], '1', 'PX', ARGV[20]) end
-- The schedule, while the namespace has workers: see schedule.lua.
if h.more and tonumber(h.more) > now then
  local name = string.sub(ARGV[10], #ARGV[9] + 2)
  local due = tonumber(ARGV[18])
  if ARGV[17] ~= '' then due = math.min(now + tonumber(ARGV[17]), due or math.huge) end
  local near = 0
  if due then
    local changed = redis.call('ZADD', KEYS[10], 'CH', text(due), 'd' .. name)
    if due < now + tonumber(ARGV[19]) then near = changed end
  else
    redis.call('ZREM', KEYS[10], 'd' .. name)
  end
  if has('e') then near = near + redis.call('ZADD', KEYS[10], 'XX', 'LT', 'CH', text(now), 't' .. name) end
  if has('v') then redis.call('SREM', KEYS[11], ARGV[10]) end
  if near > 0 then redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[16], '*', 'd', ARGV[9]) end
end
return {'ok', text(number), text(now), text(after), text(logged)}
