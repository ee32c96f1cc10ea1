-- node: replace the node record, unless another client has changed it since we read it.
-- KEYS[1] the record   ARGV[1] the record that we read, or ''   ARGV[2] the new one
-- Reply: the record that the node has now
local here = redis.call('GET', KEYS[1]) or ''
if here ~= ARGV[1] then return here end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]
