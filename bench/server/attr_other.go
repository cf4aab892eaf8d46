//go:build !linux

package server

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }
