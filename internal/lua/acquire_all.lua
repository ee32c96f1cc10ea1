-- acquire_all: take several locks at once, all of them or none, for each of those that ask for
-- some; each with the same fencing token, which must be larger than any that this node has
-- accepted for the lock before.
-- KEYS[i] a lock key, all different, those of one after those of another   KEYS[n+1] the set of tokens
-- ARGV, for each that asks: the owner, the TTL in ms, the token or '', how many locks,
-- as many or 0, and then so many owners that the locks may be taken over from; without, each must be nobody's
-- Replies n where all asked for were given and the tokens accepted for all, else for each lock:
-- {1} given · {2, token known here} given, token not accepted for all that belong together ·
-- {0, the holder's owner, its remaining ms} taken, so that none of them was given · {3} not given for that
local n, call = #KEYS - 1, redis.call
local tokens, replies, usual = KEYS[n + 1], {}, 0
local before, a = 0, 1 -- keys of those who asked before; where the arguments begin
while before < n do
  local owner, ttl, token, own, former = ARGV[a], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local first, last, taken = before + 1, before + own, false
  if call('EXISTS', unpack(KEYS, first, last)) > 0 then
    local holders = call('MGET', unpack(KEYS, first, last))
    for i = 1, own do
      local key, holder = KEYS[before + i], holders[i]
      local ours = former > 0 and holder and holder == ARGV[a + 4 + i]
      if not ours and call('EXISTS', key) == 1 then
        replies[before + i] = { 0, holder or '', call('PTTL', key) }
        taken = true
      end
    end
  end
  if taken then
    for i = first, last do replies[i] = replies[i] or { 3 } end
  else
    local pairs = {}
    for i = 1, own do
      local key = KEYS[before + i]
      call('SET', key, owner, 'PX', ttl)
      pairs[2 * i - 1], pairs[2 * i] = token, key
    end
    if token == '' or call('ZADD', tokens, 'GT', 'CH', unpack(pairs)) == own then
      usual = usual + own
    else
      -- Somebody was ahead, with one of them at least. A score equal to ours may be ours or another's:
      -- neither counts, and all need a larger one.
      for i = first, last do replies[i] = { 2, call('ZSCORE', tokens, KEYS[i]) } end
    end
  end
  before, a = last, a + 5 + former
end
if usual == n then return n end
for i = 1, n do replies[i] = replies[i] or { 1 } end
return replies
