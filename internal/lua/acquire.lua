-- acquire: take locks that are free, and propose a token for each. The node accepts a token if it is larger than all
-- that it has accepted for the lock before. With a channel, join the queues of those that are taken: the member is made
-- here, so that it costs nothing while locks are free.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[i] our owner   ARGV[n+2i-1] the token, ARGV[n+2i] the key again, as ZADD wants them
-- ARGV[3n+1] the TTL in ms for all, or ARGV[3n+i] for each   ARGV[#ARGV] our channel, or '': do not wait
-- Reply: n if all n were granted and their tokens accepted, otherwise for each:
-- {1} granted, token accepted · {2, token known here} granted, token not accepted ·
-- {0, the holder's owner, its remaining ms, its label[, how many wait before us]} taken. No owner: the key is no lock;
-- a negative time: it has no TTL. {4} our owner was revoked
-- Bound: the locks, and what watchers says.
-- Follows revoked (revoked, told), usual (n, taken, accepted, call, own_ttls, ttl), label (label),
-- readers (marker, readers), propose (tokens, disown), queue (lease), watchers (changed), join (join).
local given, proposals = {}, {}
for i = 1, n do
  if not (taken and taken[i]) then
    given[#given + 1] = i
    proposals[#proposals + 1] = ARGV[n + 2 * i - 1]
    proposals[#proposals + 1] = KEYS[i]
  end
end
accepted = accepted or #given > 0 and call('ZADD', tokens, 'GT', 'CH', unpack(proposals)) or 0

-- Tokens only grow, so our token was not accepted where the score is larger. Where it is equal, it was, unless another
-- client proposed the same number before. The count shows whether that has happened; if so, no equal score counts.
local replies, above = {}, 0
for _, i in ipairs(given) do
  local known = call('ZSCORE', tokens, KEYS[i])
  if tonumber(known) > tonumber(ARGV[n + 2 * i - 1]) then above = above + 1 end
  replies[i] = { 2, known }
end
for _, i in ipairs(given) do
  if accepted + above == #given and tonumber(replies[i][2]) == tonumber(ARGV[n + 2 * i - 1]) then
    replies[i] = { 1 }
  else
    disown(KEYS[i])
  end
  if told then changed(KEYS[i]) end
end
local channel = ARGV[#ARGV]
for i = 1, n do
  if not replies[i] and revoked(ARGV[i]) then
    replies[i] = { 4 }
  elseif not replies[i] then
    local key, holder = KEYS[i], call('MGET', KEYS[i])[1] or ''
    replies[i] = { 0, holder, call('PTTL', key), label(holder) }
    if channel ~= '' then
      if own_ttls then ttl = ARGV[3 * n + i] end
      if holder == marker then readers(key).announce_writer(lease(channel, ttl)) end
      local padded = string.rep('0', 13 - #ttl) .. ttl
      replies[i][5] = join(key, ARGV[i] .. ' ' .. ARGV[n + 2 * i - 1] .. ' ' .. padded .. ' ' .. channel, ttl)
    end
  end
end
return replies
