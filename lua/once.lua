-- once: write registers of runs, each unless a newer hold than the writer's may have read it.
-- KEYS[i] a lock key, all different   KEYS[n+1] the set of tokens
-- ARGV[2i-1] the text, with the writer's token   ARGV[2i] its TTL in ms
-- Replies n where all were written, else for each: 1 written · 0 refused: a
-- larger token was accepted here, or a later text stands
local n, call, usual, codes = #KEYS - 1, redis.call, 0, {}
for i = 1, n do
  local text, known = ARGV[2 * i - 1], call('ZSCORE', tokens, KEYS[i])
  local stands = call('MGET', register(KEYS[i]))[1] or ''
  codes[i] = 0
  if not (known and tonumber(known) > tonumber(string.sub(text, 1, 16))) and stands <= text then
    call('SET', register(KEYS[i]), text, 'PX', ARGV[2 * i])
    usual = usual + 1
    codes[i] = 1
  end
end
return usual == n and n or codes
