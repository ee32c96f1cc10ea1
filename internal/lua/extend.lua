-- extend: set a new TTL for locks that are ours, and repair those that are gone. Values go with them.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[3i-2] our owner   ARGV[3i-1] the TTL in ms   ARGV[3i] our token, or ''
-- ARGV[3n+i] the value, as value.lua has it, or ''; omitted if all are ''
-- Reply: n if all n were ours, otherwise for each: 1 extended · 2 repaired: it was free and is ours again ·
-- 0 another owner has it, or had it since, as a larger token shows · 3 our owner was revoked
-- Bound: the locks, and what watchers says.
-- Follows revoked (revoked), watchers (changed), value (values).
local n, call, usual, codes = #KEYS - 1, redis.call, 0, {}
local tokens, holders = KEYS[n + 1], call('MGET', unpack(KEYS, 1, n))
for i = 1, n do
  local key, owner, ttl, token = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  if revoked(owner) then
    codes[i] = 3
  elseif holders[i] == owner then
    call('PEXPIRE', key, ttl)
    usual = usual + 1
    codes[i] = 1
  elseif holders[i] then
    codes[i] = 0
  else
    local known = token ~= '' and call('ZSCORE', tokens, key)
    if known and tonumber(known) > tonumber(token) then
      codes[i] = 0
    elseif call('SET', key, owner, 'NX', 'PX', ttl) then
      if token ~= '' then call('ZADD', tokens, 'GT', token, key) end
      codes[i] = 2
    else
      codes[i] = 0 -- a key of another type
    end
  end
  local ours = codes[i] == 1 or codes[i] == 2
  local text = ours and ARGV[3 * n + i] or ''
  if text ~= '' then
    local kept = call('MGET', values .. key)[1] or ''
    local latest = kept > text and string.sub(kept, 1, 36) == owner and kept or text
    call('SET', values .. key, latest, 'PX', ttl)
    if latest ~= kept then changed(key) end
  end
end
return usual == n and n or codes
