-- revert: undo an adoption, so that it can be tried again.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[2i-1] the owner that adopted   ARGV[2i] the former owner; if that was revoked, the lock goes to who waits
-- Reply: n
-- Bound: the locks, and what queue and watchers say.
-- Follows revoked (revoked, told), propose (disown), queue (hand_over), watchers (changed).
local n = #ARGV / 2
for i = 1, n do
  local key = KEYS[i]
  if redis.call('MGET', key)[1] == ARGV[2 * i - 1] then -- else not adopted here
    if not revoked(ARGV[2 * i]) then
      redis.call('SET', key, ARGV[2 * i], 'KEEPTTL')
      disown(key)
    elseif not hand_over(key) then
      redis.call('DEL', key)
    end
    if told then changed(key) end
  end
end
return n
