//go:build unix && !linux

package pgtest

import "syscall"

// bind does nothing where the kernel has no such service: a test binary that is killed leaves its server behind.
func bind(*syscall.SysProcAttr, syscall.Signal) {}
