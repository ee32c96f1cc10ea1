-- release: release locks that are ours, with their values and our places in their queues.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[1] our owners, with blanks between them
-- ARGV[i+1] our member of the queue, or ''; omitted if all are '' and no token follows
-- ARGV[n+i+1] if we have extended it, our token and a half, or 'untold' if we have none; else ''; omitted if all are ''.
-- It becomes known unless another owner has the lock: then an extension of ours that arrives later, over a connection
-- that broke, is refused.
-- Reply: n if all n were ours, otherwise for each: 1 it was ours · 0 it was free · 2 another owner has it
-- Bound: the locks, and what queue and watchers say.
-- Follows propose (tokens), queue (waiting, leave, hand_over), watchers (watched, changed), value (values).
local n, call = #KEYS - 1, redis.call
local holders, usual, codes, free = call('MGET', unpack(KEYS, 1, n)), 0, {}, {}
local there, owners = call('EXISTS', waiting, watched, watched), {}
for owner in string.gmatch(ARGV[1], '[^ ]+') do owners[#owners + 1] = owner end
for i = 1, n do
  local key, member, above = KEYS[i], ARGV[i + 1] or '', ARGV[n + i + 1] or ''
  if member ~= '' then leave(key, member) end
  if tonumber(above) and (holders[i] == owners[i] or not holders[i]) then call('ZADD', tokens, 'GT', above, key) end
  if above ~= '' and string.sub(call('MGET', values .. key)[1] or '', 1, 36) == owners[i] then
    call('DEL', values .. key)
  end
  if holders[i] == owners[i] then
    usual = usual + 1
    codes[i] = 1
    if there % 2 == 0 or not hand_over(key) then free[#free + 1] = key end
    if there > 1 then changed(key) end
  else
    codes[i] = holders[i] and 2 or 0
  end
end
if #free > 0 then call('DEL', unpack(free)) end
return usual == n and n or codes
