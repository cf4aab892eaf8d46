//go:build !linux

package main

import (
	"errors"
	"os"
)

func syncAll() {}

func dontNeed(*os.File) error { return errors.ErrUnsupported }
