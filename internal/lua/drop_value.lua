-- Before release: values end with their holds.
-- ARGV[1] our owners, with blanks between them
-- Follows value (values).
do
  local i = 0
  for owner in string.gmatch(ARGV[1], '[^ ]+') do
    i = i + 1
    local kept = redis.call('MGET', values .. KEYS[i])[1]
    if kept and string.sub(kept, 1, 36) == owner then redis.call('DEL', values .. KEYS[i]) end
  end
end

