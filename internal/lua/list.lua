-- list: one step of a walk over the keys of this node. It changes nothing.
-- KEYS[1] the set of tokens
-- ARGV[1] the cursor   ARGV[2] the pattern   ARGV[3] how many keys to look at, about
-- Reply: {the next cursor, {the keys that may be locks: texts that expire and are as long as an owner or 'readers'}}
-- Bound: the keys of one step of SCAN, about ARGV[3].
local call, found = redis.call, {}
local step = call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'string')
for _, key in ipairs(step[2]) do
  if call('PTTL', key) > 0 then
    local length = call('STRLEN', key)
    if length == 36 or length == 7 then found[#found + 1] = key end
  end
end
return { step[1], found }
