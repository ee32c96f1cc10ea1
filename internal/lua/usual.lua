-- The fast path of acquire, before the functions are defined that only queues need: all locks are free, all tokens are
-- accepted, and none of these locks is watched.
-- Bound: the locks.
-- Follows revoked (any, revoked, told).
local n, call = #KEYS - 1, redis.call
local ttl, own_ttls, taken = ARGV[3 * n + 1], #ARGV > 3 * n + 2, nil
for i = 1, n do
  if own_ttls then ttl = ARGV[3 * n + i] end
  if any and revoked(ARGV[i]) or not call('SET', KEYS[i], ARGV[i], 'NX', 'PX', ttl) then
    taken = taken or {}
    taken[i] = true
  end
end
local accepted
if not taken then
  accepted = call('ZADD', KEYS[n + 1], 'GT', 'CH', unpack(ARGV, n + 1, 3 * n))
  if accepted == n and not told then return n end
end

