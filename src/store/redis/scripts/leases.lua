-- A page of the leases' index with the entries.
--
-- KEYS  header · leases
-- ARGV  1 known epoch · 2 what an entry's name begins with · 3 namespace and '/', or '' for all · 4 from which rank · 5 how many
-- Reply {'ok', now, how many ranks were looked at, (namespace/key, entry)…}, or as of `open`. Entries share the header's slot.

local h, problem = open(KEYS[1], ARGV[1])
if problem then return problem end
local from, count = tonumber(ARGV[4]), tonumber(ARGV[5])
local names = redis.call('ZRANGE', KEYS[2], from, from + count - 1)
local reply = {'ok', text(now), text(#names)}
for _, name in ipairs(names) do
  if string.sub(name, 1, #ARGV[3]) == ARGV[3] then
    local e = read(ARGV[2] .. name, h.id)
    if e then
      reply[#reply + 1] = name
      reply[#reply + 1] = e
    end
  end
end
return reply
