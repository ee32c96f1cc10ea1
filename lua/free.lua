-- The usual case of a release, before anything is defined that only queues need: all
-- locks are ours, and nobody waits for any lock on this node.
if redis.call('EXISTS', string.sub(KEYS[#KEYS], 1, -7) .. 'waiting') == 0 then
  local n = #KEYS - 1
  local holders, usual = redis.call('MGET', unpack(KEYS, 1, n)), 0
  for i = 1, n do
    if holders[i] == ARGV[2 * i - 1] and ARGV[2 * i] == '' then usual = usual + 1 end
  end
  if usual == n then
    redis.call('DEL', unpack(KEYS, 1, n))
    return n
  end
end
