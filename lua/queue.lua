-- The queue of those that wait for a lock, on this node: a sorted set whose members all have
-- the score 0, so that they stand in the order of their bytes. A member is
--   owner (36 bytes) ' ' token (16 digits, 0 for none) ' ' TTL in ms (13 digits) ' ' channel
-- and owners begin with the time at which they began to wait. So the first
-- member has waited longest, on every node alike.
local tokens = KEYS[#KEYS]
local base = string.sub(tokens, 1, -7) -- "…redlock:"

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
-- Who cannot be told is gone: it loses its place. Returns the new owner, or false where nobody waits.
local function hand_over(key)
  while true do
    local first = redis.call('ZRANGE', queue(key), 0, 0)[1]
    if not first then return false end
    leave(key, first)
    local owner = string.sub(first, 1, 36)
    local known = propose(string.sub(first, 38, 53), key)
    local told = redis.pcall('PUBLISH', string.sub(first, 69), owner .. ' ' .. (known or '') .. ' ' .. key)
    if type(told) == 'number' and told > 0 then
      redis.call('SET', key, owner, 'PX', tonumber(string.sub(first, 55, 67)))
      return owner
    end
  end
end

