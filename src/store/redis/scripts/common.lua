-- What every script begins with: the time, the header, an entry, generations, the log.
--
-- A partition's header is a hash:
--   id   random, 8 bytes: entries that carry another were written in an earlier life of the partition and count as missing
--   rid  the primary's replication id when the header was written or last taken over
--   ep   epoch of the log, µs                       s    the sequence: the last number taken
--   fl   floor: the highest number of a generation that had to be forgotten
--   gn   present once there are generations         p    the log's position: the last record of either stream
--   lp   the last record of the log                 rp   the last record of the log of Refreshed
--   wr   Refreshed are recorded until then, µs      mk   "position@µs …": where the log stood when, to trim it by age
--   n    how many partitions the store has
--   wk:… a namespace: there are workers for it until then, µs, and commits keep its schedule
--   min  the primary must see as many replicas, or it counts as cut off
--
-- Numbers are doubles here, exact up to 2^53; a number becomes text by '%.0f' only. µs since 1970 reach 2^53 in the year 2255.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local function text(number)
  return string.format('%.0f', number)
end

-- The header, or else the reply that says why this node must not be asked:
--   {'replica'}        it is none, or no more, that takes writes
--   {'headless'}       the partition has no header: it was never used, or its data is lost
--   {'primary'}        another primary than the header's: some of the last writes may be lost
--   {'cut_off', n}     it sees n replicas, fewer than it must
--   {'epoch', e}       the log has begun anew since the caller looked (`known`)
-- `known`: '' for a caller that has not looked yet; '!' for one that is taking over a new primary. `field`: one more that is wanted.
local function open(key, known, field)
  local info = redis.call('INFO', 'replication')
  if not string.find(info, 'role:master', 1, true) then return nil, {'replica'} end
  local h = redis.call('HMGET', key, 'id', 'rid', 'ep', 's', 'fl', 'gn', 'p', 'wr', 'min', 'lp', 'rp', field or 'id')
  if not h[1] then return nil, {'headless'} end
  if known ~= '!' and string.match(info, 'master_replid:(%x+)') ~= h[2] then return nil, {'primary'} end
  if h[9] then
    local good = string.match(info, 'min_slaves_good_slaves:(%d+)')
    if good and tonumber(good) < tonumber(h[9]) then return nil, {'cut_off', good} end
  end
  if known ~= '' and known ~= '!' and known ~= h[3] then return nil, {'epoch', h[3]} end
  return {
    key = key, id = h[1], epoch = h[3], s = tonumber(h[4] or 0), floor = h[5] or '0', any = h[6], p = tonumber(h[7] or 0),
    wr = tonumber(h[8] or 0), lp = h[10] or '0', rp = h[11] or '0', more = h[12],
  }
end

-- An entry's bytes, or false; and 'w' where the key holds something that is none.
--   1 byte version · 8 revision · 8 header id · 2 length of the tags · tags (2 length, text) · facts
local function read(key, id)
  local e = redis.pcall('GET', key)
  if type(e) == 'table' then return false, 'w' end
  if not e or #e < 19 or string.sub(e, 10, 17) ~= id then return false, '' end
  return e, ''
end

local function revision(e)
  return e and (struct.unpack('>I8', e, 2)) or 0
end

-- Adds the fields under which generations of packed tags (2 length, text) are kept, and their tags.
local function add_tags(packed, namespace, fields, tags)
  local at = 1
  while at < #packed do
    local tag
    tag, at = struct.unpack('>Hc0', packed, at)
    fields[#fields + 1] = namespace .. '/' .. tag
    tags[#tags + 1] = tag
  end
end

-- The generations of a namespace ('' as its tag) and of tags, as flat pairs of tag and text appended to `into`.
--   text: "newest dropped settle_until [number µs]…", the pairs being the soft invalidations, oldest first
-- A server that evicts what it likes may have evicted them: then everything that was built before now is old.
local function generations(h, key, namespace, packed, e, into)
  if not h.any then return into end
  if redis.call('EXISTS', key) == 0 then
    h.floor, h.any = text(h.s), false
    redis.call('HSET', h.key, 'fl', h.floor)
    redis.call('HDEL', h.key, 'gn')
    return into
  end
  local fields, tags = {namespace}, {''}
  add_tags(packed, namespace, fields, tags)
  if e then
    add_tags((struct.unpack('>Hc0', e, 18)), namespace, fields, tags)
  end
  local found = redis.call('HMGET', key, unpack(fields))
  for i, one in ipairs(found) do
    if one then
      into[#into + 1] = tags[i]
      into[#into + 1] = one
    end
  end
  return into
end

-- How an entry is: {'is', now, floor, warning, entry or false, bytes or false, (tag, generation)…}
local function current(h, e, warning, value, wants_bytes, gens, namespace, packed)
  local bytes = false
  if wants_bytes and e then
    bytes = redis.pcall('GET', value)
    if type(bytes) == 'table' then bytes = false end
  end
  local reply = generations(h, gens, namespace, packed, e, {'is', text(now), '', warning, e, bytes})
  reply[3] = h.floor
  return reply
end

-- The next number of the sequence.
local function take(h, above)
  local number = math.max(h.s + 1, now, above + 1)
  redis.call('HSET', h.key, 's', text(number))
  return number
end

-- Puts a record into one of the two streams of the log (`last`: 'lp' or 'rp'), at the next position, as its id.
--   field r: 8 number · 8 µs · 8 the position of the record before it in this stream · event
-- Both streams share the positions, so that a reader of both can put them in order; who finds another record before one than that one
-- names has missed something.
local function append(h, stream, last, bound, number, event, before)
  h.p = h.p + 1
  local position = text(h.p)
  redis.call('HSET', h.key, 'p', position, last, position)
  local stamp = struct.pack('>I8I8I8', number, now, before or tonumber(h[last]))
  redis.call('XADD', stream, 'MAXLEN', '~', bound, position .. '-0', 'r', stamp .. event)
  h[last] = position
end

-- Text with instants and numbers that only the commit knows. From ARGV[from] on: a count, then so many times
-- (literal, after, at_most), then a last literal. after: µs from now, or 'N' for the number; at_most: µs, '' for none.
-- Answers the text, and where ARGV goes on.
local function stamped(from, number)
  local parts = {}
  local slots = tonumber(ARGV[from])
  local at = from + 1
  for _ = 1, slots do
    parts[#parts + 1] = ARGV[at]
    local value = number
    if ARGV[at + 1] ~= 'N' then
      value = now + tonumber(ARGV[at + 1])
      if ARGV[at + 2] ~= '' then value = math.min(value, tonumber(ARGV[at + 2])) end
    end
    parts[#parts + 1] = struct.pack('>I8', value)
    at = at + 3
  end
  parts[#parts + 1] = ARGV[at]
  return table.concat(parts), at + 1
end
