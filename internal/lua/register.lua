-- The register of a name's runs, on this node: a string
--   token (16 digits) ' ' how many runs have begun ' ' how the last one stands
-- where the token is that of the hold which wrote it and the stand is begun, done or failed. So of
-- two texts the later one is the larger one, byte by byte.
local tokens = KEYS[#KEYS]
local base = string.sub(tokens, 1, -7) -- "…redlock:"

local function register(key)
  return base .. 'once:' .. string.sub(key, #base - 7) -- the name without the prefix
end

