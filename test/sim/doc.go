// Package sim is the deterministic simulation of a run: manager replicas, pods, people, a model and the world around them, in one
// thread, under a scheduler that takes every decision from a list of numbers.
//
// What decides is the real code: lifecycle.Decide, segment.Next, gate, policy, decide.Decide, contract.Wait, job.Read,
// request.Build. So is the state: the store and the ledger in memory, joined by postgres. The thin shells around them are modelled
// write by write (replica for controllers/agentrun, controllers/approval and controllers/policy; process for
// runtime/cmd/segment, runtime/segment.Run and runtime/tool.Invoker), because a schedule has to be able to stop them between
// any two writes.
//
// The same schedule gives the same trace, byte for byte. README.md says how to read one and how to replay a seed.
package sim
