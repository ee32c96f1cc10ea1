-- stop_reading: let go of reads that are ours, or of our places in the queues. The last reader hands over.
-- KEYS[i] a lock key, all different   KEYS[n+1] the set of tokens
-- ARGV[2i-1] our owner   ARGV[2i] our member of the queue, or ''
-- Replies n where all n were ours, else for each: 1 it was ours · 0 it was not, and
-- nobody has the lock alone · 2 somebody has
local n, call = #KEYS - 1, redis.call
local holders, usual, codes = call('MGET', unpack(KEYS, 1, n)), 0, {}
local waited = call('EXISTS', waiting) == 1
for i = 1, n do
  local key, member = KEYS[i], ARGV[2 * i]
  if member ~= '' then leave(key, member) end
  if holders[i] == marker then
    local of = readers(key)
    codes[i] = of.drop(ARGV[2 * i - 1])
    usual = usual + codes[i]
    if not of.keep() and not (waited and hand_over(key)) then call('DEL', key) end
  else
    codes[i] = holders[i] and 2 or 0
  end
end
return usual == n and n or codes
