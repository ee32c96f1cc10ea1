-- trial: try each command that locks need, on keys that are not declared, as other scripts do. It ends at the first
-- refusal and leaves nothing: what cleans up is tried before what writes. Then look whether our sorted sets are some,
-- and whether this user may subscribe to our channels, where the server tells (from Redis 7.0 on).
-- KEYS[1] the set of tokens
-- ARGV[1] the beginning of our channels
-- Reply: {the largest token or '', the command that was refused or '', the error, '1' if only declared keys are allowed};
-- if the error is WRONGTYPE, the keys that have it are in the place of the command
-- Bound: its steps.
local tokens, base = KEYS[1], string.sub(KEYS[1], 1, -7)
local text, zset, set = base .. 'trial', base .. 'trial:zset', base .. 'trial:set'

local function refused(command, ...)
  local reply = redis.pcall(command, ...)
  return type(reply) == 'table' and reply.err
end

local steps = {
  { 'EXISTS', text }, { 'TIME' }, { 'GET', text }, { 'MGET', text }, { 'PTTL', text }, { 'ZSCORE', zset, 'm' },
  { 'ZCARD', zset }, { 'ZCOUNT', zset, 0, 1 }, { 'ZRANGE', zset, 0, 0 }, { 'ZREVRANGE', zset, 0, 0 },
  { 'ZRANK', zset, 'm' }, { 'DEL', text }, { 'PEXPIRE', text, 1000 }, { 'PEXPIREAT', text, 1000 }, { 'ZREM', zset, 'm' },
  { 'ZREMRANGEBYSCORE', zset, 0, 1 }, { 'SREM', set, 'm' }, { 'PUBLISH', ARGV[1] .. 'trial', '' },
  { 'SET', text, '', 'NX', 'PX', 1000 }, { 'SET', text, '', 'KEEPTTL' }, { 'ZADD', zset, 'GT', 'CH', 1, 'm' },
  { 'SADD', set, 'm' },
}
local largest, at, err, declared = '', '', refused('EXISTS', tokens), ''
if err then
  at = 'EXISTS'
else
  for i, step in ipairs(steps) do
    err = refused(unpack(step))
    if err then
      at, declared = step[1], i == 1 and '1' or ''
      break
    end
  end
  if not err then
    local last = redis.pcall('ZRANGE', tokens, -1, -1, 'WITHSCORES')
    largest, at, err = last[2] or '', last.err and 'ZRANGE' or '', last.err
    local strange = {}
    for _, set in ipairs({ tokens, base .. 'revoked' }) do
      local why = refused('ZCARD', set)
      if why and string.find(why, 'WRONGTYPE', 1, true) then
        strange[#strange + 1], err = set, why
      end
    end
    if #strange > 0 then at = table.concat(strange, ' ') end
  end
  refused('DEL', text, zset, set)
end
if at == '' and redis.acl_check_cmd then
  local channel = ARGV[1] .. 'trial'
  local known, may = pcall(redis.acl_check_cmd, 'SUBSCRIBE', channel)
  if not (known and may) then at, err = 'SUBSCRIBE', 'NOPERM no permission to subscribe to ' .. channel end
end
return { largest, at, err or '', declared }
