-- The readers of a lock on this node. While the lock is read, the key holds the marker, which is no owner, and a
-- sorted set holds the leases: a member is a reader's owner, its score the lease's end, in ms of this node's clock. Key
-- and set live until the last lease ends. The set is void if the key does not hold the marker: code that sets the
-- marker begins with an empty set.
-- Two members are no owners: 'unknown' stands for readers whose set was deleted, until the key's end; 'writer' says
-- until when a writer counts as waiting, so that a dead one keeps readers out no longer.
local base = string.sub(KEYS[#KEYS], 1, -7) -- "…redlock:"
local marker = 'readers'

-- readers returns functions on the leases of a key that holds the marker. begun: the marker was just set. The functions
-- are made here, since most releases need none of them.
local function readers(key, begun)
  local call, set, time, leases = redis.call, base .. 'read:' .. key, redis.call('TIME'), {}
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if begun then
    call('DEL', set)
  elseif call('EXISTS', set) == 0 then
    local till = now + call('PTTL', key) + 1
    call('ZADD', set, till, 'unknown')
    call('PEXPIREAT', set, till) -- at once: what comes next may be refused
  else
    call('ZREMRANGEBYSCORE', set, '-inf', now)
  end

  function leases.has(owner) return call('ZSCORE', set, owner) end

  -- update_expiry makes key and set live as long as the last lease. It returns false if there is none.
  function leases.update_expiry()
    local last = call('ZREVRANGE', set, 0, 1, 'WITHSCORES')
    local till = last[last[1] == 'writer' and 4 or 2]
    if not till then
      call('DEL', set)
      return false
    end
    call('PEXPIREAT', key, till)
    call('PEXPIREAT', set, till)
    return true
  end

  -- add adds a lease, or begins it anew.
  function leases.add(owner, ttl)
    call('ZADD', set, now + ttl, owner)
    leases.update_expiry()
  end

  -- remove removes a lease. It returns 1, or 0 if there was none.
  function leases.remove(owner) return call('ZREM', set, owner) end

  -- announce_writer notes that a writer waits; writer_waits reports it.
  function leases.announce_writer(ttl)
    call('ZADD', set, 'GT', now + ttl, 'writer')
    leases.update_expiry()
  end
  function leases.writer_waits() return call('ZSCORE', set, 'writer') end

  return leases
end

