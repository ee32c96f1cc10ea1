-- enqueue: take locks that are free or were handed over to us, otherwise wait in their queues. A waiter repeats it, in
-- case it has missed a notification.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[4i-3] our owner   ARGV[4i-2] the TTL in ms   ARGV[4i-1] the token, or ''   ARGV[4i] our member of the queue
-- Reply: n if all n were granted and their tokens accepted, otherwise for each:
-- {1[, 1]} granted, token accepted · {2, token known here[, 1]} granted, token not accepted; the last 1: an older one
-- waits · {0, the holder's owner, its remaining ms, its label, how many wait before us} taken, or with -2 ms: free, but
-- older ones wait, more than a call looks at · {4} our owner was revoked
-- Bound: the locks, and what queue and watchers say.
-- Follows revoked (revoked, told), label (label), readers (marker, readers), propose (propose),
-- queue (before, hand_over, leave, lease), watchers (changed), join (join).
local n, call = #KEYS - 1, redis.call
local holders, usual, replies = call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  local key, owner, ttl, member = KEYS[i], ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i]
  local holder, older, given = holders[i], nil, false
  if revoked(owner) then
    replies[i] = { 4 }
  elseif holder == owner then
    call('PEXPIRE', key, ttl)
    older = before(key, member)
  elseif not holder and call('EXISTS', key) == 0 then -- a key of another type has no holder, but is not free
    -- Free without a release: expired, deleted, or never held. Older waiters go first.
    older = before(key, member)
    if older then
      holder = hand_over(key)
      older = before(key, member)
    end
    if not holder and not older and call('SET', key, owner, 'NX', 'PX', ttl) then
      holder, given = owner, true
    elseif holder == owner then
      call('PEXPIRE', key, ttl) -- we were next to those who are gone, and were handed a lease
    end
  end
  local news = holder ~= holders[i]
  if holder == owner and not replies[i] then
    leave(key, member)
    local known = propose(ARGV[4 * i - 1] == '' and '0' or ARGV[4 * i - 1], key, given)
    news = news or not known
    replies[i] = known and { 2, known } or { 1 }
    if older then
      table.insert(replies[i], 1)
    elseif not known then
      usual = usual + 1
    end
  elseif not replies[i] then
    if holder == marker then readers(key).announce_writer(lease(member, ttl)) end
    replies[i] = { 0, holder or '', call('PTTL', key), label(holder or ''), join(key, member, ttl) }
  end
  if told and news then changed(key) end
end
return usual == n and n or replies
