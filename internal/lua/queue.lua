-- The queue of those that wait for a lock, on this node: a sorted set whose members all have
-- the score 0, so that they stand in the order of their bytes. A member is
--   owner (36 bytes) ' ' token (16 bytes) ' ' TTL in ms (13 digits) ' ' channel
-- and owners begin with the time at which they began to wait. So the first
-- member has waited longest, on every node alike. The token has 16 digits, 0 for none; who waits to read has
-- no token but the word below.
local tokens, reading = KEYS[#KEYS], 'reading---------'

local function queue(key) return base .. 'wait:' .. key end

-- The names that somebody waits for here, so that a release need not look for
-- a queue while there is none at all.
local waiting = base .. 'waiting'

-- leave takes a member out of the queue.
local function leave(key, member)
  if redis.call('ZREM', queue(key), member) == 1 and redis.call('EXISTS', queue(key)) == 0 then
    redis.call('SREM', waiting, key)
  end
end

-- propose makes the token known. Returns false where it was larger than all before, else the one known here.
local function propose(token, key)
  if tonumber(token) == 0 or redis.call('ZADD', tokens, 'GT', 'CH', token, key) == 1 then
    return false
  end
  return redis.call('ZSCORE', tokens, key)
end

-- hand_over gives a lock that is free, or will be, to the one that has waited longest, and tells it.
-- Who cannot be told is gone: it loses its place. A reader is joined by those directly behind it, up to the next
-- writer. Where the key is the marker, of is what readers returned, and only readers are let in.
-- Returns the new owner, or the marker, or false where nobody waits.
local function hand_over(key, of)
  local begun, first, ttl = not of, nil, nil
  while true do
    first = redis.call('ZRANGE', queue(key), 0, 0)[1]
    if not first then break end
    local token = string.sub(first, 38, 53)
    ttl = tonumber(string.sub(first, 55, 67))
    if of and token ~= reading then break end
    leave(key, first)
    local owner = string.sub(first, 1, 36)
    local known = token == reading and reading or propose(token, key)
    local told = redis.pcall('PUBLISH', string.sub(first, 69), owner .. ' ' .. (known or '') .. ' ' .. key)
    if type(told) == 'number' and told > 0 then
      if token ~= reading then
        redis.call('SET', key, owner, 'PX', ttl)
        return owner
      elseif not of then
        redis.call('SET', key, marker, 'PX', ttl)
        of = readers(key, true)
      end
      of.lend(owner, ttl)
    end
  end
  -- The writer behind them has not seen the marker yet, so it could not ask that nobody passes it by.
  if of and begun and first then of.claim(ttl) end
  return of and marker or false
end

