-- revoke: take locks from owners that still hold them, for an administrator, and hand them over. An owner loses its
-- value and its places in the queues, too, and is revoked: see revoked.lua. Its client is told, if it listens: a
-- client's channels begin with what all its owners have.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[2i-1] the owner   ARGV[2i] for how long it stays revoked at least, in ms
-- Reply: n if all n were theirs, otherwise for each: 1 it was the owner's · 0 it was not
-- Bound: the locks, ten places and ten channels of each, of which an owner has one, and what queue and watchers say.
-- PUBSUB looks at all channels of the node, once for each lock.
-- Follows revoked (revocations), readers (base, marker, readers), queue (queue, leave, hand_over),
-- watchers (changed), value (values).
local n, call, usual, codes = #KEYS - 1, redis.call, 0, {}
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', revocations, '-inf', now)
for i = 1, n do
  local key, owner = KEYS[i], ARGV[2 * i - 1]
  local holder = call('MGET', key)[1]
  -- Twice what is left of the TTL: the holder learns of it at its next renewal, a third of the TTL after the last one.
  local kept = math.max(tonumber(ARGV[2 * i]), 2 * call('PTTL', key))
  call('ZADD', revocations, 'GT', now + kept, owner)
  if call('PTTL', revocations) < kept and redis.pcall('PEXPIRE', revocations, kept) ~= 1 then
    call('ZREM', revocations, owner) -- the node refuses it, so this would stay for good
    call('PEXPIRE', revocations, kept)
  end
  local from, to = '[' .. owner .. ' ', '(' .. owner .. '!'
  for _, member in ipairs(call('ZRANGE', queue(key), from, to, 'BYLEX', 'LIMIT', 0, 10)) do leave(key, member) end
  if holder == marker then
    local leases = readers(key)
    codes[i] = leases.remove(owner)
    if not leases.update_expiry() and not hand_over(key) then call('DEL', key) end
  elseif holder == owner then
    codes[i] = 1
    call('DEL', values .. key)
    if not hand_over(key) then call('DEL', key) end
  else
    codes[i] = 0
  end
  local channels = string.gsub(base .. 'wake:' .. string.sub(owner, 20, 28), '[*?%[\\]', '\\%0') .. ':*'
  channels = redis.pcall('PUBSUB', 'CHANNELS', channels)
  for c = 1, math.min(#channels, 10) do
    redis.pcall('PUBLISH', channels[c], owner .. ' revoked ' .. key)
  end
  changed(key)
  usual = usual + codes[i]
end
return usual == n and n or codes
