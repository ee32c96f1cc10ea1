-- trim: drop the tokens that are older than the retention, and note the largest that was ever dropped, the floor.
-- They must be older by the client's clock and by the node's: either may have been set forward. But a clock that is
-- years behind must not keep all tokens for years, so the node's does not count for more than an hour.
-- KEYS[1] the floor   KEYS[2] the set of tokens
-- ARGV[1] the nodes' time in us, as the client has it   ARGV[2] the retention in us
-- Replies {the floor, or ''}
local call = redis.call
local theirs, mine = tonumber(ARGV[1]), call('TIME')
local now = math.min(theirs, math.max(mine[1] * 1000000 + mine[2], theirs - 3600000000))
local oldest, floor = string.format('%.0f', now - ARGV[2]), call('GET', KEYS[1]) or ''
local last = call('ZRANGE', KEYS[2], oldest, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
if last then
  if tonumber(last) > (tonumber(floor) or 0) then
    floor = last
    redis.pcall('SET', KEYS[1], floor) -- refused where memory is short, which dropping mends
  end
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', oldest)
end
return { floor }
