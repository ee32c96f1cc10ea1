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

-- hand_over gives a lock that is free, or will be, to the waiter that has waited longest, and notifies it. A waiter
-- whose channel has no subscriber is gone, and loses its place, as does what is no member. With a reader go the readers
-- directly behind it, up to the next writer. If the key holds the marker, leases is the result of readers, and only
-- readers are let in. It returns the new owner, or the marker, or false if no waiter got the lock.
-- A waiter is told last, for it counts on what it is told: the node may refuse to write, and the script ends there.
-- If its channel ends in a lease in ms, it gets the lock for so long at first: it may be stopped, or cut off. A reader
-- that has a lease here, by an extension, keeps that as it is: its hold counts on it.
-- Bound: the places that a call takes from all queues together, and one at least from each. If nobody got the lock by
-- then, it is free, and the next questions of its waiters go on.
local places = 1000
local form = '^(%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x) (%S+) (%d+) (.+)$'
local function hand_over(key, leases)
  local begun, written, first, ttl = not leases, false, nil, nil
  while true do
    first = redis.call('ZRANGE', queue(key), 0, 0)[1]
    if not first then break end
    local owner, token, wants, channel = string.match(first, form)
    local reads = token == reading
    ttl = tonumber(wants)
    local whole = owner and owner == string.lower(owner) and #token == 16 and (reads or not string.find(token, '%D'))
      and #wants == 13 and ttl > 0
    if leases and whole and not reads then break end
    leave(key, first)
    if whole and not (leases and leases.has(owner)) then
      local lease = math.min(ttl, tonumber(string.match(first, ':([1-9]%d*)$') or ttl) or ttl)
      local known = reads and reading or propose(token, key, true)
      if not leases then
        redis.call('SET', key, reads and marker or owner, 'PX', lease)
        leases, written = reads and readers(key, true), true
      end
      if reads then leases.add(owner, lease) end
      local receivers = redis.pcall('PUBLISH', channel, owner .. ' ' .. (known or '') .. ' ' .. key)
      if type(receivers) == 'number' and receivers > 0 then
        if not reads then return owner end
      elseif reads then
        leases.remove(owner)
        if not leases.update_expiry() and begun then leases = nil end
      end
    end
    places = places - 1
    if places <= 0 then
      first = nil -- whoever is next now is not known to be a writer
      break
    end
  end
  -- The writer behind them has not seen the marker yet, so it could not announce itself.
  if leases and begun and first then leases.announce_writer(ttl) end
  if written and not leases then redis.call('DEL', key) end
  return leases and marker or false
end

