-- stop_reading: release our leases, and our places in the queues. The last reader hands over.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[2i-1] our owner   ARGV[2i] our member of the queue, or ''
-- Reply: n if all n leases were there, otherwise for each: 1 it was there · 0 it was not, and no writer has the lock ·
-- 2 a writer has it
-- Bound: the locks, and what queue and watchers say.
-- Follows readers (marker, readers), queue (waiting, leave, hand_over), watchers (watched, changed).
local n, call = #KEYS - 1, redis.call
local holders, usual, codes = call('MGET', unpack(KEYS, 1, n)), 0, {}
local there = call('EXISTS', waiting, watched, watched)
for i = 1, n do
  local key, member = KEYS[i], ARGV[2 * i]
  if member ~= '' then leave(key, member) end
  if holders[i] == marker then
    local leases = readers(key)
    codes[i] = leases.remove(ARGV[2 * i - 1])
    usual = usual + codes[i]
    if not leases.update_expiry() and (there % 2 == 0 or not hand_over(key)) then call('DEL', key) end
    if there > 1 then changed(key) end
  else
    codes[i] = holders[i] and 2 or 0
  end
end
return usual == n and n or codes
