-- The readers of a lock, on this node. While somebody reads, the key is the marker, which is no owner, and a
-- sorted set holds who reads: each member is an owner, its score the end of its lease, in ms of this node's
-- clock. Key and set live until the last of these ends. What a set says is void once its key is no longer
-- the marker: whoever makes a key the marker begins with an empty set.
-- Two members are no owners: 'unknown' stands for those whose set was deleted, up to the end that the key had
-- then; 'writer' says until when a writer counts as waiting, so that one which is gone keeps nobody out for longer.
local base = string.sub(KEYS[#KEYS], 1, -7) -- "…redlock:"
local marker = 'readers'

-- readers returns what can be done with the readers of a key that is the marker. begun: it has just become that.
-- It makes its functions when they are needed, since most releases need none of them.
local function readers(key, begun)
  local call, set, time, of = redis.call, base .. 'read:' .. key, redis.call('TIME'), {}
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if begun then
    call('DEL', set)
  elseif call('EXISTS', set) == 0 then
    call('ZADD', set, now + call('PTTL', key) + 1, 'unknown')
  else
    call('ZREMRANGEBYSCORE', set, '-inf', now)
  end

  function of.has(owner) return call('ZSCORE', set, owner) end

  -- keep lets key and set live as long as the longest lease. Returns false where nobody reads any more.
  function of.keep()
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

  -- lend adds a reader, or begins its lease anew.
  function of.lend(owner, ttl)
    call('ZADD', set, now + ttl, owner)
    of.keep()
  end

  -- drop takes a reader out: 1, or 0 where it was none.
  function of.drop(owner) return call('ZREM', set, owner) end

  -- claim says that a writer waits; claimed asks.
  function of.claim(ttl)
    call('ZADD', set, 'GT', now + ttl, 'writer')
    of.keep()
  end
  function of.claimed() return call('ZSCORE', set, 'writer') end

  return of
end

