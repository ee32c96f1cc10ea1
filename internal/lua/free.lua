-- The fast path of release, before the functions are defined that only queues need: all locks are ours, and no lock on
-- this node has waiters or is watched. Our owners contain no blank, so if the joined texts are equal, so is each owner.
local own = string.sub(KEYS[#KEYS], 1, -7)
if redis.call('EXISTS', own .. 'waiting', own .. 'watched') == 0 and not ARGV[2] then
  local n = #KEYS - 1
  local whole, holders = pcall(table.concat, redis.call('MGET', unpack(KEYS, 1, n)), ' ')
  if whole and holders == ARGV[1] then -- not whole: a lock has no holder
    redis.call('DEL', unpack(KEYS, 1, n))
    return n
  end
end
