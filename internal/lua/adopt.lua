-- adopt: take over locks from the owners that handed them over, and propose a token for each.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[4i-3] our owner   ARGV[4i-2] the TTL in ms   ARGV[4i-1] the token, or ''   ARGV[4i] the former owner
-- Reply: n if all n were granted and their tokens accepted, otherwise for each:
-- {1} granted, token accepted · {2, token known here} granted, token not accepted ·
-- {0, the holder's owner, its remaining ms, its label} not the former owner's · {4} either owner was revoked
-- Bound: the locks, and what watchers says.
-- Follows revoked (revoked, told), label (label), watchers (changed).
local n, call = #KEYS - 1, redis.call
local tokens, holders, usual, replies = KEYS[n + 1], call('MGET', unpack(KEYS, 1, n)), 0, {}
for i = 1, n do
  local key, token = KEYS[i], ARGV[4 * i - 1]
  if revoked(ARGV[4 * i]) or revoked(ARGV[4 * i - 3]) then
    replies[i] = { 4 }
  elseif holders[i] ~= ARGV[4 * i] then
    replies[i] = { 0, holders[i] or '', call('PTTL', key), label(holders[i] or '') }
  else
    call('SET', key, ARGV[4 * i - 3], 'PX', ARGV[4 * i - 2])
    if told then changed(key) end
    if token == '' or call('ZADD', tokens, 'GT', 'CH', token, key) == 1 then
      usual = usual + 1
      replies[i] = { 1 }
    else
      local known = call('ZSCORE', tokens, key)
      replies[i] = { 2, known }
      call('ZADD', tokens, 'GT', string.format('%.1f', math.floor(known) + 0.5), key) -- it is not ours: see propose.lua
    end
  end
end
return usual == n and n or replies
