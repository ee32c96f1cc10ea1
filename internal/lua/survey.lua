-- survey: report which slots of semaphores are taken, how many wait for each, and which have changed hands.
-- KEYS[i] the slots' keys without their numbers   KEYS[n+1] the set of tokens
-- ARGV[i] the number of slots
-- Reply for each, slot by slot: its remaining ms, -2 if it is free, -1 if it has no TTL; how many wait for it; and the
-- largest token that is known, 0 for none
-- Bound: the slots that the callers ask for.
-- Follows propose (tokens), queue (waiting, queue).
local call, waiters, replies = redis.call, redis.call('EXISTS', waiting) == 1, {}
for i = 1, #KEYS - 1 do
  local slots = {}
  for slot = 0, tonumber(ARGV[i]) - 1 do
    local key = KEYS[i] .. slot
    slots[#slots + 1] = call('PTTL', key)
    slots[#slots + 1] = waiters and call('ZCARD', queue(key)) or 0
    slots[#slots + 1] = tonumber(call('ZSCORE', tokens, key) or 0)
  end
  replies[i] = slots
end
return replies
