-- join adds a member to the queue, or keeps it there, and returns how many wait before it. Waiters ask again within
-- half of their TTL, so a queue ends one TTL after the last waiter asked, as fast as a lock.
local function join(key, member, ttl)
  redis.call('ZADD', queue(key), 0, member)
  redis.call('SADD', waiting, key)
  for _, mine in ipairs({ queue(key), waiting }) do
    if redis.call('PTTL', mine) < tonumber(ttl) then redis.call('PEXPIRE', mine, ttl) end
  end
  return redis.call('ZRANK', queue(key), member)
end

