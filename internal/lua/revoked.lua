-- Owners from which an administrator has taken a lock are in a sorted set for a while: a member is an owner, its score
-- the end, in ms of this node's clock. Whatever gives a lock to an owner, or keeps it there, asks revoked first: what
-- the owner has sent before may arrive late, and its waiter may not know of it yet. While nobody was revoked, that
-- costs one look for the set a call.
local revocations = string.sub(KEYS[#KEYS], 1, -7) .. 'revoked'
local any = redis.call('EXISTS', revocations) == 1
local function revoked(owner) return any and redis.call('ZSCORE', revocations, owner) end

