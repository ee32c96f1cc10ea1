-- read: join the readers of locks that are nobody's or the readers', or wait for that in the queue.
-- Where a writer waits, nobody passes it by.
-- KEYS[i] a lock key, all different   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] the TTL in ms   ARGV[3i] our member of the queue, or '': do not wait
-- Replies n where all n were given, else for each: {1} given ·
-- {0, the holder's owner or the marker, its remaining ms[, how many wait before us]} taken, or a writer waits
local n, call = #KEYS - 1, redis.call
local holders, usual, replies = call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  local key, owner, ttl, member = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local holder, of, ours = holders[i], nil, false
  local function passes_by()
    local first = call('ZRANGE', queue(key), 0, 0)[1]
    return first and (member == '' or first < member)
  end
  if not holder and call('EXISTS', key) == 0 then
    -- Free without a release: expired, deleted, or never held. Who is older goes first.
    holder = passes_by() and hand_over(key)
    if not holder then
      call('SET', key, marker, 'PX', ttl)
      of, ours = readers(key, true), true
    end
  end
  if holder == marker then
    of = readers(key)
    if not of.has(owner) then hand_over(key, of) end -- from here on, who is first in the queue is a writer
    ours = of.has(owner) or not (passes_by() and of.claimed())
  end
  if ours then
    of.lend(owner, ttl)
    if member ~= '' then leave(key, member) end
    usual = usual + 1
    replies[i] = { 1 }
  else
    replies[i] = { 0, holder or '', call('PTTL', key) }
    if member ~= '' then replies[i][4] = stand(key, member, ttl) end
  end
end
return usual == n and n or replies
