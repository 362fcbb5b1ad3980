// Package contract is what the manager and a segment promise each other. Both sides
// import it; it imports neither.
//
// The manager freezes a [Snapshot] before the first segment and starts one Job per
// (run, segment, attempt) as [Pod] lays it out. A segment reads the snapshot, works, and ends in one
// of three ways:
//
//	outcome   a durable row that says why it ended well  (exit 0)
//	fault     another attempt may cure it                (exit 75, [Fault] as termination message)
//	crash     anything else
//
// Every value that is stored carries a schema number. A reader that does not know it ends the
// run with a named error and never guesses.
package contract
