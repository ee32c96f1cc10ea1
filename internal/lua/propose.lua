-- propose has the node accept a token, if it is larger than all that it has accepted for the lock, also than those that
-- it has dropped since: its floor. What waits has an old token, and nobody knows who drops what meanwhile. What is
-- asked with a new one does without this look (usual, acquire, acquire_all, adopt).
-- It returns false if the node accepts the token, otherwise the larger or equal one that is known. If the lock was not
-- the proposer's before, what is known is another's.
-- Bound: two keys.
local tokens, floor = KEYS[#KEYS], nil

-- disown notes, by half a step, that the token known here is not that of the owner which has just got the lock.
local function disown(key)
  local known = redis.call('ZSCORE', tokens, key)
  if known then redis.call('ZADD', tokens, 'GT', string.format('%.1f', math.floor(known) + 0.5), key) end
end

local function propose(token, key, given)
  if tonumber(token) == 0 then return false end
  if not floor then
    local noted = redis.call('MGET', string.sub(tokens, 1, -7) .. 'floor')[1] or ''
    local low, later = string.match(noted, '^([%d%.]+) ?(%d*)')
    floor, later = tonumber(low) or 0, tonumber(later) or 0
    -- See trim.lua. A set that is there and has no end was gone before.
    if later > floor and redis.call('PTTL', tokens) < 0 then floor = later end
  end
  local above = tonumber(token) > floor
  if above and redis.call('ZADD', tokens, 'GT', 'CH', token, key) == 1 then return false end
  local known = redis.call('ZSCORE', tokens, key)
  if given then disown(key) end
  return (above or known and tonumber(known) > floor) and known or string.format('%.0f', floor)
end

