package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Supervisor returns the process id of this cluster's living supervisor.
//
// A process id alone proves nothing: it may have been given to somebody else
// since. The process must also have been started to run this directory.
func (d Dir) Supervisor() (pid int, alive bool) {
	content, err := os.ReadFile(d.PID())
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || pid <= 1 {
		return 0, false
	}
	return pid, supervises(commandLine(pid), d)
}

// supervises says whether a command line is that of `devcluster run --dir d`.
func supervises(arguments []string, d Dir) bool {
	if len(arguments) < 2 || !slices.Contains(arguments, "run") {
		return false
	}
	for i, argument := range arguments {
		value, joined := strings.CutPrefix(argument, "--dir=")
		if argument == "--dir" && i+1 < len(arguments) {
			value, joined = arguments[i+1], true
		}
		// A relative path was relative to a directory we do not know: `run` is
		// always started with an absolute one by `up`; by hand, the last name decides.
		if joined && (filepath.Clean(value) == string(d) ||
			!filepath.IsAbs(value) && filepath.Base(filepath.Clean(value)) == filepath.Base(string(d))) {
			return true
		}
	}
	return false
}

// commandLine returns nothing for a process that does not exist or is a zombie.
func commandLine(pid int) []string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(content) == 0 {
		return nil
	}
	var arguments []string
	for argument := range bytes.SplitSeq(bytes.TrimSuffix(content, []byte{0}), []byte{0}) {
		arguments = append(arguments, string(argument))
	}
	return arguments
}
