package pgtest

import "syscall"

// bind makes the kernel send a process the signal when the thread that started it ends: a test
// binary that is killed leaves nothing behind.
func bind(s *syscall.SysProcAttr, how syscall.Signal) { s.Pdeathsig = how }
