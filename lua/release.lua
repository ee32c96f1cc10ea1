-- release: let go of locks that are ours.
-- KEYS[i] a lock key   ARGV[i] our owner of it
-- Replies n where all n were ours, else for each: 1 it was ours · 0 it was
-- nobody's · 2 it is somebody else's
local n, holders, ours, codes = #KEYS, redis.call('MGET', unpack(KEYS)), {}, {}
for i = 1, n do
  if holders[i] == ARGV[i] then
    ours[#ours + 1] = KEYS[i]
    codes[i] = 1
  else
    codes[i] = holders[i] and 2 or 0
  end
end
if #ours > 0 then redis.call('DEL', unpack(ours)) end
return #ours == n and n or codes
