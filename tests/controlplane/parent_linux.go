package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a component even when this program is killed.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
