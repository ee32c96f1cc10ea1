-- node: replace the node record, unless somebody else was faster.
-- KEYS[1] the record   ARGV[1] the record that was read, or ''   ARGV[2] the new one
-- Replies the record that stands.
local here = redis.call('GET', KEYS[1]) or ''
if here ~= ARGV[1] then return here end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]
