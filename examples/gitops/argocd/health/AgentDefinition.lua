-- How an AgentDefinition is. An edit that does not compile is Degraded although runs use the last revision that did: what stands
-- in Git is not what runs. One that waits for the tools of a server compiles by itself.
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
if ready.status == "False" and ready.reason ~= "ToolServerNotReady" then
  return {status = "Degraded", message = message}
end
return {status = "Progressing", message = message}
