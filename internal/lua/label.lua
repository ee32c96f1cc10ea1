-- label returns what the client of an owner calls itself, or ''. Each client leaves its label under the part of its
-- owners that is the same in all of them.
local function label(owner)
  return redis.call('MGET', string.sub(KEYS[#KEYS], 1, -7) .. 'label:' .. string.sub(owner, 20, 28))[1] or ''
end

