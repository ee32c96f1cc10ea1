-- Owners from which an administrator has taken a lock are in a sorted set for a while: a member is an owner, its score
-- the end, in ms of this node's clock. Whatever gives a lock to an owner, or keeps it there, asks revoked first: what
-- the owner has sent before may arrive late, and its waiter may not know of it yet. While nobody was revoked, and nobody
-- watches a lock (watchers.lua), that costs one look a call. Bound: the locks.
local own = string.sub(KEYS[#KEYS], 1, -7)
local revocations = own .. 'revoked'
local there, told = redis.call('EXISTS', revocations, own .. 'watched', own .. 'watched'), false
local any = there % 2 == 1
if there > 1 then
  local sets = {}
  for i = 1, #KEYS - 1 do sets[i] = own .. 'watch:' .. KEYS[i] end
  told = redis.call('EXISTS', unpack(sets)) > 0 -- one of these locks is watched
end
local function revoked(owner) return any and redis.call('ZSCORE', revocations, owner) end

