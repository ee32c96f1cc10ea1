-- The usual case of a release, before anything is defined that only queues need: all
-- locks are ours, and nobody waits for any lock on this node. No owner of ours has a blank in it, so
-- the owners are the same one by one where they are all together.
if redis.call('EXISTS', string.sub(KEYS[#KEYS], 1, -7) .. 'waiting') == 0 and not ARGV[2] then
  local n = #KEYS - 1
  local whole, holders = pcall(table.concat, redis.call('MGET', unpack(KEYS, 1, n)), ' ')
  if whole and holders == ARGV[1] then -- not whole: a lock is nobody's
    redis.call('DEL', unpack(KEYS, 1, n))
    return n
  end
end
