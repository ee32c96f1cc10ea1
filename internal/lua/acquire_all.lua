-- acquire_all: for each request, take several locks, all or none, and propose one token for all of them.
-- KEYS[i] a lock key, all distinct, request after request   KEYS[n+1] the set of tokens
-- ARGV, for each request: our owner, the TTL in ms, the token or '', the number of its locks, and 0 (each must be free)
-- or the same number again, followed by that many former owners (each must be free or its former owner's)
-- Reply: n if all n were granted and their tokens accepted, otherwise for each lock:
-- {1} granted, tokens accepted · {2, token known here} granted, token not accepted for all of the request ·
-- {0, the holder's owner, its remaining ms, its label} taken, or {4} our owner was revoked, so none of the request was
-- granted · {3} not granted for that reason
-- Bound: the locks, and what watchers says.
-- Follows revoked (revoked, told), label (label), watchers (changed).
local n, call = #KEYS - 1, redis.call
local tokens, replies, usual = KEYS[n + 1], {}, 0
local before, a = 0, 1 -- how many keys earlier requests have; where this one's arguments begin
while before < n do
  local owner, ttl, token, own, former = ARGV[a], ARGV[a + 1], ARGV[a + 2], tonumber(ARGV[a + 3]), tonumber(ARGV[a + 4])
  local first, last, taken = before + 1, before + own, revoked(owner)
  if taken then
    replies[first] = { 4 }
  elseif call('EXISTS', unpack(KEYS, first, last)) > 0 then
    local holders = call('MGET', unpack(KEYS, first, last))
    for i = 1, own do
      local key, holder = KEYS[before + i], holders[i]
      local ours = former > 0 and holder and holder == ARGV[a + 4 + i]
      if not ours and call('EXISTS', key) == 1 then
        replies[before + i] = { 0, holder or '', call('PTTL', key), label(holder or '') }
        taken = true
      end
    end
  end
  if taken then
    for i = first, last do replies[i] = replies[i] or { 3 } end
  else
    local proposals = {}
    for i = 1, own do
      local key = KEYS[before + i]
      call('SET', key, owner, 'PX', ttl)
      if told then changed(key) end
      proposals[2 * i - 1], proposals[2 * i] = token, key
    end
    if token == '' or call('ZADD', tokens, 'GT', 'CH', unpack(proposals)) == own then
      usual = usual + own
    else
      -- At least one token was not accepted. An equal score may be ours or another client's, so it does not count: all
      -- need a larger token.
      for i = first, last do
        local known = call('ZSCORE', tokens, KEYS[i])
        replies[i] = { 2, known }
        call('ZADD', tokens, 'GT', string.format('%.1f', math.floor(known) + 0.5), KEYS[i]) -- see disown in propose.lua
      end
    end
  end
  before, a = last, a + 5 + former
end
if usual == n then return n end
for i = 1, n do replies[i] = replies[i] or { 1 } end
return replies
