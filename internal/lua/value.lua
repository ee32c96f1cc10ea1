-- The value of a hold on this node is a string beside the lock:
--   owner (36 bytes) ' ' token (16 digits) ' ' number (16 digits) ' ' value
-- The number grows with each change, so what arrives late changes nothing. The string counts only while the lock is the
-- owner's here. It tells the token, too, which the set of tokens forgets in a long hold.
local values = string.sub(KEYS[#KEYS], 1, -7) .. 'value:'

