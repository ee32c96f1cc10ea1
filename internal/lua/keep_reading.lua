-- keep_reading: extend our leases, and repair those that are gone, unless a writer has the lock.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[2i-1] our owner   ARGV[2i] the TTL in ms
-- Reply: n if all n leases were there, otherwise for each: 1 extended · 2 repaired: it was gone and is there again ·
-- 0 a writer has the lock, or the key is no lock · 3 our owner was revoked
-- Bound: the locks.
-- Follows revoked (revoked), readers (marker, readers).
local n, call, usual, codes = #KEYS - 1, redis.call, 0, {}
local holders = call('MGET', unpack(KEYS, 1, n))
for i = 1, n do
  local key, owner, ttl = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local leases = holders[i] == marker and readers(key)
  if revoked(owner) then
    codes[i] = 3
  elseif leases and leases.has(owner) then
    codes[i] = 1
    leases.add(owner, ttl)
  elseif leases then
    codes[i] = 2
    leases.add(owner, ttl)
  elseif not holders[i] and call('SET', key, marker, 'NX', 'PX', ttl) then
    codes[i] = 2
    readers(key, true).add(owner, ttl)
  else
    codes[i] = 0 -- a writer's, or a key of another type
  end
  if codes[i] == 1 then usual = usual + 1 end
end
return usual == n and n or codes
