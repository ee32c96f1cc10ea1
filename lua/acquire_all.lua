-- acquire_all: take several locks for one owner, all of them or none, each with the same fencing
-- token, which must be larger than any that this node has accepted for the lock before.
-- KEYS[i] a lock key, all different   KEYS[n+1] the set of tokens
-- ARGV[1] our owner   ARGV[2] the TTL in ms   ARGV[3] the token, or ''
-- ARGV[3+i] an owner that lock i may be taken over from; none at all: each must be nobody's
-- Replies n where all were given and the token accepted for each, else for each:
-- {2, token known here} given, token not accepted for all ·
-- {0, the holder's owner, its remaining ms} taken, so that none was given · {3} not given for that
local n, call = #KEYS - 1, redis.call
local tokens, replies, taken = KEYS[n + 1], {}, false
for i = 1, n do replies[i] = { 3 } end
if call('EXISTS', unpack(KEYS, 1, n)) > 0 then
  local holders = call('MGET', unpack(KEYS, 1, n))
  for i = 1, n do
    local ours = holders[i] and holders[i] == ARGV[3 + i]
    if not ours and call('EXISTS', KEYS[i]) == 1 then
      replies[i] = { 0, holders[i] or '', call('PTTL', KEYS[i]) }
      taken = true
    end
  end
end
if taken then return replies end

local pairs = {}
for i = 1, n do
  call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  pairs[2 * i - 1], pairs[2 * i] = ARGV[3], KEYS[i]
end
if ARGV[3] == '' or call('ZADD', tokens, 'GT', 'CH', unpack(pairs)) == n then return n end

-- Somebody was ahead, with one of them at least. A score equal to ours may be ours or another's:
-- neither counts, and all need a larger one.
for i = 1, n do replies[i] = { 2, call('ZSCORE', tokens, KEYS[i]) } end
return replies
