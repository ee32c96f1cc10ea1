-- inspect: report what is known of names. With a channel, tell that of changes for the next 15 s, if the node lets us
-- write; else it changes nothing.
-- KEYS[i] a lock key   KEYS[n+1] the set of tokens
-- ARGV[i] our channel, or '', or nothing
-- Reply for each: {the holder's owner or '', its remaining ms, the largest token that the node remembers or '', how
-- many wait, the register or '', its remaining ms, {the set of readers' members, if the holder is the marker}, the
-- holder's label, {the members' labels}, the value, as value.lua has it, or ''}
-- Bound: the locks, and a thousand readers in all, but a hundred at least of each lock.
-- Follows register (register, base, tokens), label (label), value (values), watchers (watchers, watched).
local call, replies, most = redis.call, {}, 1000
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local known, reading, labels = call('MGET', key, register(key), values .. key), {}, {}
  if known[1] == 'readers' then
    local time = call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    reading = call('ZRANGE', base .. 'read:' .. key, now + 1, '+inf', 'BYSCORE', 'LIMIT', 0, math.max(most, 100))
    most = most - #reading
    for r, owner in ipairs(reading) do labels[r] = label(owner) end
  end
  replies[i] = {
    known[1] or '', call('PTTL', key), call('ZSCORE', tokens, key) or '',
    call('ZCARD', base .. 'wait:' .. key), known[2] or '', call('PTTL', register(key)), reading,
    label(known[1] or ''), labels, known[3] or '',
  }
  local channel, set = ARGV[i] or '', watchers .. key
  if channel ~= '' then
    redis.pcall('ZADD', set, 0, channel)
    if redis.pcall('PEXPIRE', set, 15000) ~= 1 then redis.pcall('ZREM', set, channel) end -- it would stay for good
    redis.pcall('SET', watched, '', 'PX', 15000)
  end
end
return replies
