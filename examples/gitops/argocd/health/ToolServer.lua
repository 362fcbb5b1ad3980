-- How a ToolServer is. Unknown is said while it is asked for its tools.
local status = obj.status or {}
local ready = nil
for _, c in ipairs(status.conditions or {}) do
  if c.type == "Ready" then
    ready = c
  end
end

if ready == nil then
  return {status = "Progressing", message = "The manager has not seen it yet"}
end
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The manager has not seen the newest change yet"}
end
local message = ready.reason .. ": " .. (ready.message or "")
if ready.status == "True" then
  return {status = "Healthy", message = message}
end
if ready.status == "False" then
  return {status = "Degraded", message = message}
end
return {status = "Progressing", message = message}
