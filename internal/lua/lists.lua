-- lists: note with which lists of nodes a client votes, and tell by a digest which ones are in use: a client reads them
-- only where it does not know the digest. Lists that were confirmed within the last 15 s are not written again: of a
-- thousand clients that agree, one writes. No call walks over the clients, nor over the lists unless these have changed:
-- then over a hundred at most.
-- KEYS[1] the sorted set of lists: a member and when a client last confirmed it, in ms by the node's clock, or later
-- where it is to live for more than a minute; the node's identity, a member with the score 0; and the digest of the
-- others, with the score -1
-- KEYS[2] the sorted set of the clients that have ARGV[3]: a member, likewise; and 'since', with the score -t: from t on
-- these lists were always in use   KEYS[3] of those that have ARGV[5]
-- ARGV[1] 'ask' · 'read': ask, and read the lists · 'vote': note the client · 'leave': forget it · 'count': ask, and
-- count the clients in each of the sets from KEYS[2] on   ARGV[2] an identity for a node that has none, or ''
-- ARGV[3] the client's lists   ARGV[4] its member of the clients   ARGV[5] what its lists were before, or ''
-- ARGV[6] 'vote': for how long the client is to count unless it confirms, in ms: a minute if missing, an hour at most.
-- It is the same for all that have ARGV[3]
-- ARGV[7] 'vote', 'leave': a former member of the client, which goes; there may be more of them
-- Reply: {the node's identity or '', the digest or '': none are in use, {'read': the lists that were confirmed within
-- the last minute, a hundred at most; 'count': the numbers of clients, set by set, and behind these for how many ms
-- their lists have been in use, 0: not known}}
-- Bound: a hundred lists, and the members that the caller names.
local call, time, minute, hour = redis.call, redis.call('TIME'), 60000, 3600000
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local more = math.max(0, (ARGV[6] or 0) - minute)
local lists, mode, own = KEYS[1], ARGV[1], ARGV[3]

local function at(ms) return string.format('%.0f', ms) end

local function keep(set) -- nothing is left for good
  local left, want = call('PTTL', set), more + 5 * minute
  if left < want or left > hour + 5 * minute then call('PEXPIREAT', set, at(now + want)) end
end

-- The clock may have been set back.
local function prune(set)
  local old = call('ZREMRANGEBYSCORE', set, '(0', '(' .. at(now - minute))
  return old + call('ZREMRANGEBYSCORE', set, '(' .. at(now + hour), '+inf')
end

local changed = false
if mode == 'vote' then
  local last = tonumber(call('ZSCORE', lists, own) or 0)
  local confirmed = last > now + more - 15000 and last <= now + hour
  if call('ZADD', KEYS[2], at(now + more), ARGV[4]) == 1 or not confirmed then keep(KEYS[2]) end
  if not confirmed then
    prune(lists)
    prune(KEYS[2])
    if call('ZADD', lists, at(now + more), own) == 1 then
      local since = KEYS[3] and call('ZSCORE', KEYS[3], 'since') -- other words for the same lists
      call('ZADD', KEYS[2], since or at(-now), 'since')
    end
    keep(lists)
    changed = true -- or another version of this script has added some
  end
else
  changed = prune(lists) > 0
end

-- What a client had leaves with the last client that has it.
local function leave(clients, had)
  call('ZREM', clients, ARGV[4])
  if call('ZCOUNT', clients, at(now - minute), at(now + hour)) == 0 then
    call('ZREM', clients, 'since')
    changed = call('ZREM', lists, had) > 0 or changed
  end
end

for i = 7, #ARGV do
  for k = 2, #KEYS do call('ZREM', KEYS[k], ARGV[i]) end
end
if ARGV[5] ~= '' then leave(KEYS[3], ARGV[5]) end
if mode == 'leave' then leave(KEYS[2], own) end
local identity, digest
local said = call('ZRANGE', lists, -1, 0, 'BYSCORE', 'LIMIT', 0, 10, 'WITHSCORES')
for i = 1, #said, 2 do
  if said[i + 1] == '0' then identity = identity or said[i] else digest = said[i] end
end
if not identity and ARGV[2] ~= '' then
  redis.pcall('ZADD', lists, 0, ARGV[2]) -- refused if memory is short
  keep(lists)
  identity = call('ZRANGE', lists, 0, 0, 'BYSCORE', 'LIMIT', 0, 1)[1]
end
local live = {}
if changed or mode == 'read' or not digest and call('ZCOUNT', lists, '(0', '+inf') > 0 then
  live = call('ZRANGE', lists, '+inf', '(0', 'BYSCORE', 'REV', 'LIMIT', 0, 100)
  table.sort(live)
  local is = #live > 0 and redis.sha1hex(table.concat(live, '\n')) or nil
  if is ~= digest then
    if digest then call('ZREM', lists, digest) end
    if is then redis.pcall('ZADD', lists, -1, is) end
    digest = is
  end
end
if mode == 'count' then
  live = {}
  for i = 2, #KEYS do
    live[i - 1] = call('ZCOUNT', KEYS[i], at(now - minute), at(now + hour))
    live[#KEYS + i - 2] = now + (call('ZSCORE', KEYS[i], 'since') or -now)
  end
elseif mode ~= 'read' then
  live = {}
end
return { identity or '', digest or '', live }
