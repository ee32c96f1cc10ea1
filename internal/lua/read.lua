-- read: join the readers of locks that are free or read already, otherwise wait in their queues. A new reader does not
-- overtake a writer that waits.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] the TTL in ms   ARGV[3i] our member of the queue, or '': do not wait
-- Reply: n if all n were granted, otherwise for each: {1[, 1]} granted; the second 1: an older writer waits ·
-- {0, the holder's owner or the marker, its remaining ms, its label[, how many wait before us]} taken, or a writer
-- waits, or with -2 ms: free, but older ones wait, more than a call looks at · {4} our owner was revoked
-- Bound: the locks, and what queue and watchers say.
-- Follows revoked (revoked, told), label (label), readers (marker, readers),
-- queue (queue, before, hand_over, reading, leave), watchers (changed), join (join).
local n, call = #KEYS - 1, redis.call
local holders, usual, replies = call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  local key, owner, ttl, member = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local holder, leases, ours, older = holders[i], nil, false, false
  local function overtakes() return member == '' and call('ZRANGE', queue(key), 0, 0)[1] or before(key, member) end
  if revoked(owner) then
    replies[i] = { 4 }
  elseif not holder and call('EXISTS', key) == 0 then
    -- Free without a release: expired, deleted, or never held. Older waiters go first.
    local waits = overtakes()
    holder = waits and hand_over(key)
    if not holder and not (waits and overtakes()) then
      call('SET', key, marker, 'PX', ttl)
      leases, ours = readers(key, true), true
    end
  end
  if holder == marker and not replies[i] then
    leases = readers(key)
    if leases.has(owner) then
      local first = before(key, member)
      ours, older = true, first and string.sub(first, 38, 53) ~= reading
    else
      hand_over(key, leases) -- after this, the first in the queue is a writer
      ours = leases.has(owner) or not (overtakes() and leases.writer_waits())
    end
  end
  if ours then
    if told and not leases.has(owner) then changed(key) end
    leases.add(owner, ttl)
    if member ~= '' then leave(key, member) end
    usual = usual + (older and 0 or 1)
    replies[i] = { 1, older and 1 or nil }
  elseif not replies[i] then
    replies[i] = { 0, holder or '', call('PTTL', key), label(holder or '') }
    if member ~= '' then replies[i][5] = join(key, member, ttl) end
  end
end
return usual == n and n or replies
