-- propose has the node accept a token, if it is larger than all that it has accepted for the lock, also than those that
-- it has dropped since: its floor. What waits has an old token, and nobody knows who drops what meanwhile. What is
-- asked with a new one does without this look (usual, acquire, acquire_all, adopt).
-- It returns false if the node accepts the token, otherwise the larger or equal one that is known.
-- Bound: two keys.
local tokens, floor = KEYS[#KEYS], nil

local function propose(token, key)
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
  return (above or known and tonumber(known) > floor) and known or string.format('%.0f', floor)
end

