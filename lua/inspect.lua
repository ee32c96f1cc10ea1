-- inspect: tell what is known of names. It changes nothing.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- Replies for each: {the holder's owner or '', its remaining ms, the largest
-- token accepted of late or '', how many wait, the register or '', its remaining ms}
local call, replies = redis.call, {}
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local known = call('MGET', key, register(key))
  replies[i] = {
    known[1] or '', call('PTTL', key), call('ZSCORE', tokens, key) or '',
    call('ZCARD', base .. 'wait:' .. key), known[2] or '', call('PTTL', register(key)),
  }
end
return replies
