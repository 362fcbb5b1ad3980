-- How an AgentRun is. An end is final, whatever generation it speaks of. Before it, a status of an earlier generation says nothing.
-- A run that was cancelled is Degraded like one that failed: what was asked for in Git was not done, and nothing that waits for
-- it in a later wave may go on as if it had been.
local status = obj.status or {}
local by = {}
for _, c in ipairs(status.conditions or {}) do
  by[c.type] = c
end
local succeeded = by.Succeeded
local function say(health)
  if succeeded.message == nil or succeeded.message == "" then
    return {status = health, message = succeeded.reason}
  end
  return {status = health, message = succeeded.reason .. ": " .. succeeded.message}
end

if succeeded == nil then
  return {status = "Progressing", message = "The manager has not seen it yet"}
end
if by.Finished ~= nil and by.Finished.status == "True" then
  if succeeded.status == "True" then
    return say("Healthy")
  end
  return say("Degraded")
end
if status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The manager has not seen the newest change yet"}
end
if succeeded.reason == "AwaitingApproval" then
  return say("Suspended")
end
return say("Progressing")
