-- once: write jobs' registers, each unless a newer hold than the writer's may have read it.
-- KEYS[i] a lock key, all distinct   KEYS[n+1] the set of tokens
-- ARGV[4i-3] the writer's owner, which must hold the lock here; or '' for a text that a majority has already: every
-- newer hold has read that, so larger tokens do not matter
-- ARGV[4i-2] the text, with the writer's token   ARGV[4i-1] its TTL in ms
-- ARGV[4i] when it ends at the latest, in ms of this node's time
-- Reply: n if all were written, otherwise for each: 1 written · 0 refused: a larger token was accepted here, or the
-- node has a later text · 2 refused: the writer does not hold the lock here · 3 refused: the text has ended
-- Bound: the locks.
-- Follows register (register, tokens).
local n, call, usual, codes, time = #KEYS - 1, redis.call, 0, {}, redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, n do
  local key, owner, text = KEYS[i], ARGV[4 * i - 3], ARGV[4 * i - 2]
  local left = math.min(tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i]) - now)
  local token = tonumber(string.sub(text, 1, 16))
  local here, known = call('MGET', key, register(key)), owner ~= '' and call('ZSCORE', tokens, key)
  if known and tonumber(known) > token or (here[2] or '') > text then
    codes[i] = 0
  elseif owner ~= '' and here[1] ~= owner then
    codes[i] = 2
  elseif left <= 0 then
    codes[i] = 3
  else
    call('SET', register(key), text, 'PX', left)
    usual = usual + 1
    codes[i] = 1
  end
end
return usual == n and n or codes
