-- The register of a job on this node is a string:
--   token (16 digits) ' ' how many runs have begun ' ' the last run's state
-- The token is that of the hold which wrote it; the state is begun, done or failed. So the later of two texts is the
-- larger one, byte by byte.
local tokens = KEYS[#KEYS]
local base = string.sub(tokens, 1, -7) -- "…redlock:"

local function register(key)
  return base .. 'once:' .. string.sub(key, #base - 7) -- the name without the prefix
end

