-- settings: note which settings a client has, and tell which ones are in use. Settings that were confirmed within the
-- last 15 s are not written again: of a thousand clients that agree, one writes, and the others read. trim.lua goes by
-- a client's retention for as long again as its longest TTL: until whatever it has asked for is over.
-- KEYS[1] the sorted set of settings: a member and when a client last confirmed it, in ms by the node's clock
-- ARGV[1] this client's settings; '': it only asks
-- Reply: the settings that were confirmed within the last minute, a hundred at most; this client's may be missing
-- Bound: a hundred settings.
local call = redis.call
local time, minute = call('TIME'), 60000
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local live, confirmed, left = {}, ARGV[1] == '', minute
local function stays(text) left = math.max(left, minute + math.min(string.match(text, ' ttl=(%d+)$') or 0, 1e12)) end
stays(ARGV[1])
local all = call('ZREVRANGE', KEYS[1], 0, 99, 'WITHSCORES')
for i = 1, #all, 2 do
  stays(all[i])
  local age = now - all[i + 1] -- less than zero if the clock was set back
  if age >= -minute and age <= minute then
    live[#live + 1] = all[i]
    confirmed = confirmed or all[i] == ARGV[1] and age >= 0 and age < 15000
  end
end
if not confirmed then
  redis.pcall('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1]) -- refused if memory is short
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - left))
  call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + minute), '+inf')
  call('PEXPIREAT', KEYS[1], string.format('%.0f', now + 4 * minute + left)) -- nothing is left for good
end
return live
