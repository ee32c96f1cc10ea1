-- stand puts a member into the queue, or keeps it there. Waiters ask again within half of their TTL. What nobody asks about any more
-- goes away, as fast as the lock itself would. Returns how many wait before it.
local function stand(key, member, ttl)
  redis.call('ZADD', queue(key), 0, member)
  redis.call('SADD', waiting, key)
  for _, mine in ipairs({ queue(key), waiting }) do
    if redis.call('PTTL', mine) < tonumber(ttl) then redis.call('PEXPIRE', mine, ttl) end
  end
  return redis.call('ZRANK', queue(key), member)
end

