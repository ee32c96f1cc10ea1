-- revert: undo an adoption, so that it can be tried again.
-- KEYS[i] a lock key   KEYS[n+1] not used
-- ARGV[2i-1] the owner that adopted   ARGV[2i] the former owner
-- Reply: n
local n = #ARGV / 2
for i = 1, n do
  if redis.call('MGET', KEYS[i])[1] == ARGV[2 * i - 1] then
    redis.call('SET', KEYS[i], ARGV[2 * i], 'KEEPTTL')
  end
end
return n
