-- Add a message to a stream, unless it was added within the last seconds.
--
-- Input
--   KEYS[1]  the stream
--   KEYS[2]  the key that marks the message as added, in the same hash slot
--   ARGV[1]  seconds for which the mark is kept
--   ARGV[2]  approximate maximum length of the stream; 0 for no maximum
--   ARGV[3]  and so on: fields and values
-- Output
--   the id of the new entry, or nil if the message was added before
--
-- The mark is written last: if the script fails at XADD, there is no mark.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return nil
end
local command = {'XADD', KEYS[1]}
if tonumber(ARGV[2]) > 0 then
  command[3], command[4], command[5] = 'MAXLEN', '~', ARGV[2]
end
command[#command + 1] = '*'
for index = 3, #ARGV do
  command[#command + 1] = ARGV[index]
end
local id = redis.call(unpack(command))
redis.call('SET', KEYS[2], id, 'EX', ARGV[1])
return id
