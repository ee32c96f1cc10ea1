-- The queue of a lock on this node is a sorted set whose members all have the score 0, so they are in the order of
-- their bytes. A member is
--   owner (36 bytes) ' ' token (16 bytes) ' ' TTL in ms (13 digits) ' ' channel
-- An owner begins with the time at which its wait began, so the first member has waited longest, on every node alike.
-- The token has 16 digits, 0 for none; in its place, a waiter that wants to read has the word below.
-- Follows readers (base, readers, marker), propose (propose).
local reading = 'reading---------'

local function queue(key) return base .. 'wait:' .. key end

-- before returns the first member of the queue if it is before this one. The server compares bytes; Lua would go by the
-- server's locale.
local function before(key, member)
  return redis.call('ZRANGE', queue(key), '[', '(' .. member, 'BYLEX', 'LIMIT', 0, 1)[1]
end

-- The set of the keys that have a queue here: while it does not exist, a release looks for no queue.
local waiting = base .. 'waiting'

-- leave removes a member from the queue.
local function leave(key, member)
  if redis.call('ZREM', queue(key), member) == 1 and redis.call('EXISTS', queue(key)) == 0 then
    redis.call('SREM', waiting, key)
  end
end

-- lease returns for how long, in ms, a waiter counts that is not heard of: it may be stopped, or cut off. Its channel
-- ends in that; ttl, if the channel of an older client does not.
local function lease(channel, ttl)
  return math.min(ttl, tonumber(string.match(channel, ':([1-9]%d*)$') or ttl) or ttl)
end

-- hand_over gives a lock that is free, or will be, to the waiter that has waited longest, and notifies it. A waiter
-- whose channel has no subscriber is gone, and loses its place, as does what is no member. With a reader go the readers
-- behind it, up to the next writer. If the key holds the marker, leases is the result of readers, and only readers are
-- let in; a writer loses its place if no writer has asked for a lease, and is told to ask, as is one that has not seen
-- the marker yet. It returns the new owner, or the marker, or false if no waiter got the lock.
-- A waiter is told last, for it counts on what it is told: the node may refuse to write, and the script ends there.
-- It gets the lock for a lease at first. A reader that has one here, by an extension, keeps that as it is: its hold
-- counts on it.
-- Bound: the places that a call takes from all queues together, and one at least from each. If nobody got the lock by
-- then, it is free, and the next questions of its waiters go on.
local places = 1000
local form = '^(%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x) (%S+) (%d+) (.+)$'
local function hand_over(key, leases)
  local begun, written = not leases, false
  while true do
    local first = redis.call('ZRANGE', queue(key), 0, 0)[1]
    if not first then break end
    local owner, token, wants, channel = string.match(first, form)
    local reads = token == reading
    local ttl = tonumber(wants)
    local whole = owner and owner == string.lower(owner) and #token == 16 and (reads or not string.find(token, '%D'))
      and #wants == 13 and ttl > 0
    local overtaken = leases and whole and not reads
    if overtaken then
      if not begun and leases.writer_waits() then break end
      if begun then leases.announce_writer(lease(channel, ttl)) end
      redis.pcall('PUBLISH', channel, owner .. ' next ' .. key)
      if begun then break end
    end
    leave(key, first)
    if whole and not overtaken and not (leases and leases.has(owner)) then
      local term = lease(channel, ttl)
      local known = reads and reading or propose(token, key, true)
      if not leases then
        redis.call('SET', key, reads and marker or owner, 'PX', term)
        leases, written = reads and readers(key, true), true
      end
      if reads then leases.add(owner, term) end
      local receivers = redis.pcall('PUBLISH', channel, owner .. ' ' .. (known or '') .. ' ' .. key)
      if type(receivers) == 'number' and receivers > 0 then
        if not reads then return owner end
      elseif reads then
        leases.remove(owner)
        if not leases.update_expiry() and begun then leases = nil end
      end
    end
    places = places - 1
    if places <= 0 then break end
  end
  if written and not leases then redis.call('DEL', key) end
  return leases and marker or false
end

