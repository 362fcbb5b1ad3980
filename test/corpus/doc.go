// Package corpus holds what releases have stored, and has this version go on from it.
//
// testdata has a folder for each release, and in it a file for each story: the rows of one run that was left in the middle of
// something, as that release wrote them. A test puts them back and carries the run to its end. No file is ever changed; a release
// whose stored form differs from that of the one before adds its own:
//
//	go test ./test/corpus -run Stored -record v0.3
package corpus
