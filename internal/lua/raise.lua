-- raise: propose larger tokens for locks that are ours.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] not used   ARGV[3i] the token
-- Reply: n if all n tokens were accepted, otherwise for each: {1} accepted · {2, token known here} not accepted ·
-- {0} the lock is not ours
-- Bound: the locks.
local n, call = #KEYS - 1, redis.call
local tokens, holders, usual, replies = KEYS[n + 1], call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  if holders[i] ~= ARGV[3 * i - 2] then
    replies[i] = { 0 }
  elseif call('ZADD', tokens, 'GT', 'CH', ARGV[3 * i], KEYS[i]) == 1 then
    usual = usual + 1
    replies[i] = { 1 }
  else
    replies[i] = { 2, call('ZSCORE', tokens, KEYS[i]) }
  end
end
return usual == n and n or replies
