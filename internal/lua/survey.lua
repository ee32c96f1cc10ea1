-- survey: which slots of a semaphore are taken, and how many wait for each.
-- KEYS[i] the slots' keys without their numbers   KEYS[n+1] the set of tokens
-- ARGV[i] how many slots there are
-- Replies for each, slot by slot: how long it is taken still in ms, -2 where it
-- is free and -1 where it has no TTL, and how many wait for it
local call, anybody, replies = redis.call, redis.call('EXISTS', waiting) == 1, {}
for i = 1, #KEYS - 1 do
  local slots = {}
  for slot = 0, tonumber(ARGV[i]) - 1 do
    local key = KEYS[i] .. slot
    slots[#slots + 1] = call('PTTL', key)
    slots[#slots + 1] = anybody and call('ZCARD', queue(key)) or 0
  end
  replies[i] = slots
end
return replies
