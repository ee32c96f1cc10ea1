-- raise: propose larger tokens for locks that are ours.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] not used   ARGV[3i] the token
-- Reply: n if all n tokens were accepted, otherwise for each: {1} accepted · {2, token known here} not accepted ·
-- {0} the lock is not ours
-- Bound: the locks, and what watchers says.
-- Follows propose (propose), watchers (watched, changed).
local n, call = #KEYS - 1, redis.call
local holders, usual, replies = call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  if holders[i] ~= ARGV[3 * i - 2] then
    replies[i] = { 0 }
  else
    local known = propose(ARGV[3 * i], KEYS[i])
    replies[i] = known and { 2, known } or { 1 }
    if not known then
      usual = usual + 1
      if call('EXISTS', watched) == 1 then changed(KEYS[i]) end
    end
  end
end
return usual == n and n or replies
