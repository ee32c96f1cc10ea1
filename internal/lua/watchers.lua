-- Those that watch a lock on this node are in a sorted set of their channels, all with the score 0. While the key that
-- watched names exists, somebody watches some lock here; otherwise what gives or frees a lock looks for nobody.
local watched = string.sub(KEYS[#KEYS], 1, -7) .. 'watched'
local watchers = string.sub(KEYS[#KEYS], 1, -7) .. 'watch:'

-- changed tells those that watch a lock to look at it. One whose channel has no subscriber is gone.
-- Bound: the channels that a call tells in all, and ten at least of each lock. The others see it with their next look.
local listeners = 4000
local function changed(key)
  local all = redis.call('ZRANGE', watchers .. key, 0, math.max(listeners, 10) - 1)
  listeners = listeners - #all
  for _, channel in ipairs(all) do
    if redis.pcall('PUBLISH', channel, '- changed ' .. key) == 0 then
      redis.call('ZREM', watchers .. key, channel)
    end
  end
end

