-- lists: note with which lists of nodes a client votes, and tell which ones are in use. Lists that were confirmed within
-- the last 15 s are not written again: of a thousand clients that agree, one writes, and the others read.
-- KEYS[1] the sorted set of lists: a member and when a client last confirmed it, in ms by the node's clock; and the
-- node's identity, a member with the score 0   KEYS[2] the sorted set of clients: a member, likewise
-- ARGV[1] 'vote': note the client · 'leave': forget it · 'ask' · 'count': ask, and count the clients
-- ARGV[2] an identity for a node that has none, or ''   ARGV[3] the client's lists   ARGV[4] its member of the clients,
-- whose last 12 characters are the same for all clients with the same nodes   ARGV[5] what its lists were before, or ''
-- ARGV[6] … 'leave': other lists with the same nodes, to be forgotten with the last client that has these nodes
-- Reply: {the node's identity or '', {the lists that were confirmed within the last minute, a hundred at most},
-- {the end of a member, how many clients have it, … if they are counted}}
local call, time, minute = redis.call, redis.call('TIME'), 60000
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lists, clients, mode, own = KEYS[1], KEYS[2], ARGV[1], ARGV[3]

local function count()
  local counts = {}
  for _, member in ipairs(call('ZRANGE', clients, string.format('%.0f', now - minute), '+inf', 'BYSCORE')) do
    local shape = string.sub(member, -12)
    counts[shape] = (counts[shape] or 0) + 1
  end
  return counts
end

local function keep(set)
  call('ZREMRANGEBYSCORE', set, '(0', string.format('(%.0f', now - minute))
  call('ZREMRANGEBYSCORE', set, string.format('(%.0f', now + minute), '+inf')
  call('PEXPIREAT', set, string.format('%.0f', now + 5 * minute)) -- nothing is left for good
end

if ARGV[5] ~= '' then call('ZREM', lists, ARGV[5]) end
if mode == 'leave' then
  call('ZREM', clients, ARGV[4])
  if not count()[string.sub(ARGV[4], -12)] then call('ZREM', lists, own, unpack(ARGV, 6)) end
end
local identity = call('ZRANGE', lists, 0, 0, 'BYSCORE')[1]
if not identity and ARGV[2] ~= '' then
  redis.pcall('ZADD', lists, 0, ARGV[2]) -- refused if memory is short
  keep(lists)
  identity = call('ZRANGE', lists, 0, 0, 'BYSCORE')[1]
end
local live, confirmed = {}, false
local all = call('ZREVRANGE', lists, 0, 99, 'WITHSCORES')
for i = 1, #all, 2 do
  local age = now - all[i + 1] -- less than zero if the clock was set back
  if age >= -minute and age <= minute then
    live[#live + 1] = all[i]
    confirmed = confirmed or all[i] == own and age >= 0 and age < 15000
  end
end
if mode == 'vote' then
  if not confirmed then
    call('ZADD', lists, string.format('%.0f', now), own)
    keep(lists)
  end
  call('ZADD', clients, string.format('%.0f', now), ARGV[4])
  keep(clients)
end
local counted = {}
if mode == 'count' then
  for shape, clients in pairs(count()) do
    counted[#counted + 1] = shape
    counted[#counted + 1] = clients
  end
end
return { identity or '', live, counted }
