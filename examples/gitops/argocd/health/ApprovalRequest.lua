-- How an ApprovalRequest is. It waits for people, and is Degraded only if nobody's decision would be honoured. Every answer is
-- a healthy end, a denial too: the run goes on and its model is told.
local status = obj.status or {}
local by = {}
for _, c in ipairs(status.conditions or {}) do
  by[c.type] = c
end
local decided = by.Decided
local guarded = by.ApprovalsGuarded

if decided ~= nil and decided.status ~= "Unknown" then
  return {status = "Healthy", message = decided.reason .. ": " .. (decided.message or "")}
end
if guarded ~= nil and guarded.status == "False" then
  return {status = "Degraded", message = guarded.reason .. ": " .. (guarded.message or "")}
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "The manager has not seen the decision yet"}
end
return {status = "Suspended", message = "Waits for a decision of pool " .. obj.spec.pool}
