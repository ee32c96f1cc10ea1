-- trim: drop the tokens that are older than the retention, and keep the largest that was ever dropped, the floor. The
-- longest retention counts that any client has told: see settings.lua.
-- They must be older by the client's clock and by the node's, since either may have been set forward. But the node's
-- clock delays this by no more than an hour: one that is years behind must not keep all tokens for years.
-- The set also gets a time to live, for when no client comes any more. Nobody can note a floor then, so it is noted now:
-- behind the floor, the one that counts when the set is gone, and from when on it is gone, in us of this clock.
-- KEYS[1] the floor   KEYS[2] the set of tokens   KEYS[3] the sorted set of settings
-- ARGV[1] the client's estimate of the nodes' time in us   ARGV[2] the retention in us
-- ARGV[3] for how long the set must live from now on, in ms
-- ARGV[4] '1': the client is about to propose tokens, so the set is made if it does not exist: only what exists can
-- expire. The member '' is no lock's key. The client calls this again before it proposes tokens later than a second from
-- now. Until then its tokens are its time, or one more than the largest that is known, which then grows by less than a
-- second.
-- Clients call this with their checks. What another one has written within the last 4 s is not written again.
-- Reply: {the floor, or ''}
-- Bound: a hundred settings, and what is dropped.
local call = redis.call
local theirs, mine = tonumber(ARGV[1]), call('TIME')
mine = mine[1] * 1000000 + mine[2]
local now = math.min(theirs, math.max(mine, theirs - 3600000000))
local text = call('GET', KEYS[1]) or ''
local floor, later, from = string.match(text, '^([%d%.]+) ?(%d*) ?(%d*)$')
floor, later, from = tonumber(floor) or 0, tonumber(later) or 0, tonumber(from) or 0
local noted, gone = floor, call('EXISTS', KEYS[2]) == 0 -- gone: although the clock may have been set back since
local over = from > 0 and mine >= from
if gone or over then floor = math.max(floor, later) end

local function whole(n) return string.format('%.0f', math.floor(n)) end
local function reply() return { floor > 0 and whole(floor) or '' } end
if gone and floor == noted and ARGV[4] ~= '1' then return reply() end

local function highest(below)
  if gone then return nil end
  local found = call('ZRANGE', KEYS[2], below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  return tonumber(found[2])
end

local retention = tonumber(ARGV[2])
local drops = highest(whole(now - retention))
if drops then
  local told = redis.pcall('ZREVRANGE', KEYS[3], 0, 99, 'WITHSCORES')
  for i = 1, #told, 2 do
    local longer, ttl = string.match(told[i], ' retention=(%d+) ttl=(%d+)$')
    local age = mine / 1000 - told[i + 1]
    if longer and age >= -60000 and age <= 60000 + ttl then retention = math.max(retention, longer * 1000) end
  end
  drops = highest(whole(now - retention))
end
floor = math.max(floor, drops or 0)
local last = highest('+inf')
local lives, words, renew = ARGV[4] == '1' or last and last > now - retention, { whole(floor) }, false
if lives then
  local ttl = gone and -2 or call('PTTL', KEYS[2])
  renew = ARGV[4] == '1' or from == 0 or over or later <= last or ttl < ARGV[3] - 4000
  if renew then
    ttl = math.max(ttl, tonumber(ARGV[3]))
    later = math.max(later, math.max(floor, last or 0, theirs) + 1000000)
    from = mine - mine % 1000 + ttl * 1000
  end
  words[2], words[3] = whole(later), whole(from)
end
local kept = true
if renew or floor > noted then
  kept = not redis.pcall('SET', KEYS[1], table.concat(words, ' ')).err -- refused if memory is short; dropping frees some
end
if drops then call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole(now - retention)) end
if renew and kept then
  if ARGV[4] == '1' then redis.pcall('ZADD', KEYS[2], 'NX', whole(now), '') end
  call('PEXPIREAT', KEYS[2], string.format('%.0f', from / 1000))
end
return reply()
