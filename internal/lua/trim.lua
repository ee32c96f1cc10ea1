-- trim: drop the tokens that are older than the retention, and keep the largest that was ever dropped, the floor.
-- They must be older by the client's clock and by the node's, since either may have been set forward. But the node's
-- clock delays this by no more than an hour: one that is years behind must not keep all tokens for years.
-- KEYS[1] the floor   KEYS[2] the set of tokens
-- ARGV[1] the client's estimate of the nodes' time in us   ARGV[2] the retention in us
-- Reply: {the floor, or ''}
local call = redis.call
local theirs, mine = tonumber(ARGV[1]), call('TIME')
local now = math.min(theirs, math.max(mine[1] * 1000000 + mine[2], theirs - 3600000000))
local oldest, floor = string.format('%.0f', now - ARGV[2]), call('GET', KEYS[1]) or ''
local last = call('ZRANGE', KEYS[2], oldest, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')[2]
if last then
  if tonumber(last) > (tonumber(floor) or 0) then
    floor = last
    redis.pcall('SET', KEYS[1], floor) -- refused if memory is short; to drop tokens frees some
  end
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', oldest)
end
return { floor }
