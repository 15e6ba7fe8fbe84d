//go:build !linux

package main

import "os/exec"

// dieWithParent needs Linux; elsewhere a killed parent leaves its components behind.
func dieWithParent(*exec.Cmd) {}
