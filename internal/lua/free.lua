-- The fast path of release, before the functions are defined that only queues need: all locks are ours, no lock on this
-- node has waiters, and none of these is watched. Our owners contain no blank, so if the joined texts are equal, so is
-- each owner. Bound: the locks.
local base = string.sub(KEYS[#KEYS], 1, -7)
local there = ARGV[2] and 1 or redis.call('EXISTS', base .. 'waiting', base .. 'watched', base .. 'watched')
if there == 2 then -- somebody watches: one of these?
  local sets = {}
  for i = 1, #KEYS - 1 do sets[i] = base .. 'watch:' .. KEYS[i] end
  there = redis.call('EXISTS', unpack(sets))
end
if there == 0 then
  local n = #KEYS - 1
  local whole, holders = pcall(table.concat, redis.call('MGET', unpack(KEYS, 1, n)), ' ')
  if whole and holders == ARGV[1] then -- not whole: a lock has no holder
    redis.call('DEL', unpack(KEYS, 1, n))
    return n
  end
end
