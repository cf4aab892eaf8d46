package server

import "syscall"

// childAttributes lets a child die with its parent, paused or not.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
