-- revoke: take locks from owners that still hold them, for an administrator, and hand them over. The owners' later
-- extensions must not bring the locks back: a node that has the mark below repairs nothing for the owner.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[2i-1] the owner   ARGV[2i] for how long to keep the mark at least, in ms
-- Reply: n if all n were theirs, otherwise for each: 1 it was the owner's · 0 it was not
local n, call, usual, codes = #KEYS - 1, redis.call, 0, {}
for i = 1, n do
  local key, owner = KEYS[i], ARGV[2 * i - 1]
  local holder = call('MGET', key)[1]
  -- Twice what is left of the TTL: the holder learns of it at its next renewal, a third of the TTL after the last one.
  local kept = math.max(tonumber(ARGV[2 * i]), 2 * call('PTTL', key))
  call('SET', base .. 'revoked:' .. owner, '1', 'PX', kept)
  if holder == marker then
    local leases = readers(key)
    codes[i] = leases.remove(owner)
    if not leases.update_expiry() and not hand_over(key) then call('DEL', key) end
  elseif holder == owner then
    codes[i] = 1
    if not hand_over(key) then call('DEL', key) end
  else
    codes[i] = 0
  end
  usual = usual + codes[i]
end
return usual == n and n or codes
