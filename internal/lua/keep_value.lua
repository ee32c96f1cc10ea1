-- Before extend: put the values beside those locks that are ours, or keep them there. One that comes late, after a newer
-- one of the same owner, changes nothing.
-- ARGV[3n+i], behind what extend gets: the value of lock i, as value.lua has it
-- Follows revoked (revoked), watchers (changed), value (values).
for i = 1, #KEYS - 1 do
  local key, owner, text = KEYS[i], ARGV[3 * i - 2], ARGV[3 * (#KEYS - 1) + i]
  local here = redis.call('MGET', key, values .. key)
  if here[1] == owner and not revoked(owner) then
    local kept = here[2] or ''
    if string.sub(kept, 1, 36) == owner and kept > text then text = kept end
    redis.call('SET', values .. key, text, 'PX', ARGV[3 * i - 1])
    if text ~= kept then changed(key) end
  end
end

