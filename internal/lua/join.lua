-- join adds a member to the queue, or keeps it there, and returns how many wait before it. A queue that nobody asks
-- about ends after 30 s, or a TTL that is longer: twice as long as any waiter pauses. A dead waiter is not kept
-- by that: it is passed over, because nobody listens. Who watches the lock, its holder perhaps, is told of the first
-- that waits. Bound: two keys, and what watchers says.
-- Follows revoked (told), queue (queue, waiting, leave), watchers (changed).
local function join(key, member, ttl)
  local new = redis.call('ZADD', queue(key), 0, member) == 1
  redis.call('SADD', waiting, key)
  ttl = math.max(ttl, 30000)
  for _, mine in ipairs({ queue(key), waiting }) do
    if redis.call('PTTL', mine) < ttl and redis.pcall('PEXPIRE', mine, ttl) ~= 1 then
      leave(key, member) -- the node refuses it, so this would stay for good
      redis.call('PEXPIRE', mine, ttl)
    end
  end
  local before = redis.call('ZRANK', queue(key), member)
  if told and new and before == 0 then changed(key) end
  return before
end

