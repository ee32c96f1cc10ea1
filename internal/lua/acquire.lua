-- acquire: take locks that are free, and propose a token for each. The node accepts a token if it is larger than all
-- that it has accepted for the lock before. With a channel, join the queues of those that are taken: the member is made
-- here, so that it costs nothing while locks are free.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[i] our owner   ARGV[n+2i-1] the token, ARGV[n+2i] the key again, as ZADD wants them
-- ARGV[3n+1] the TTL in ms for all, or ARGV[3n+i] for each   ARGV[#ARGV] our channel, or '': do not wait
-- Reply: n if all n were granted and their tokens accepted, otherwise for each:
-- {1} granted, token accepted · {2, token known here} granted, token not accepted ·
-- {0, the holder's owner, its remaining ms[, how many wait before us]} taken. No owner: the key is no lock; a negative
-- time: it has no TTL.
local n, call = #KEYS - 1, redis.call
local ttl, own_ttls, taken = ARGV[3 * n + 1], #ARGV > 3 * n + 2, nil
for i = 1, n do
  if own_ttls then ttl = ARGV[3 * n + i] end
  if not call('SET', KEYS[i], ARGV[i], 'NX', 'PX', ttl) then
    taken = taken or {}
    taken[i] = true
  end
end
local accepted
if not taken then
  accepted = call('ZADD', KEYS[n + 1], 'GT', 'CH', unpack(ARGV, n + 1, 3 * n))
  if accepted == n then return n end
end

