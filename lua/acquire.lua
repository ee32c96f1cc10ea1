-- acquire: take locks that are nobody's, each with a fencing token that must be
-- larger than any that this node has accepted for the lock before.
-- KEYS[i] a lock key, all different   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] the TTL in ms   ARGV[3i] the token
-- Replies n where all n were given and their tokens accepted, else for each:
-- {1} given and accepted · {2, token known here} given, token not accepted ·
-- {0, the holder's owner, its remaining ms} taken. A negative time: no TTL; no
-- owner: the key is no lock.
local n, call = #KEYS - 1, redis.call
local tokens, given, pairs = KEYS[n + 1], {}, {}
for i = 1, n do
  if call('SET', KEYS[i], ARGV[3 * i - 2], 'NX', 'PX', ARGV[3 * i - 1]) then
    given[#given + 1] = i
    pairs[#pairs + 1] = ARGV[3 * i]
    pairs[#pairs + 1] = KEYS[i]
  end
end
local accepted = #given > 0 and call('ZADD', tokens, 'GT', 'CH', unpack(pairs)) or 0
if accepted == n then return n end

-- Tokens only grow, so a score above ours was not accepted. One equal to ours was, unless
-- somebody proposed the same number before: the count tells whether that has
-- happened, and then no equal one counts.
local replies, above = {}, 0
for _, i in ipairs(given) do
  local known = call('ZSCORE', tokens, KEYS[i])
  if tonumber(known) > tonumber(ARGV[3 * i]) then above = above + 1 end
  replies[i] = { 2, known }
end
for _, i in ipairs(given) do
  if accepted + above == #given and tonumber(replies[i][2]) == tonumber(ARGV[3 * i]) then
    replies[i] = { 1 }
  end
end
for i = 1, n do
  if not replies[i] then
    replies[i] = { 0, call('MGET', KEYS[i])[1] or '', call('PTTL', KEYS[i]) }
  end
end
return replies
