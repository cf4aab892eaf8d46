package main

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ncTool is nc -z [-v] [-w SECONDS] HOST PORT, which health checks look with whether
// a port is open. The image uses it where its base has no nc that can.
func ncTool(args []string, _, stderr io.Writer) int {
	bad := func(format string, args ...any) int {
		fmt.Fprintf(stderr, "nc: "+format+"\n", args...)
		return exitUsage
	}
	timeout, zero := toolTimeout, false
	var words []string
	for i := 0; i < len(args); i++ {
		letters, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			words = append(words, args[i])
			continue
		}
		value := ""
		if at := strings.IndexByte(letters, 'w'); at >= 0 {
			if letters, value = letters[:at], letters[at+1:]; value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
			seconds, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return bad("-w %s: must be a number of seconds", value)
			}
			timeout = time.Duration(seconds) * time.Second
		}
		zero = zero || strings.ContainsRune(letters, 'z')
		if other := strings.Trim(letters, "zvn4"); other != "" {
			return bad("only -z is served, with -v, -n and -w, not -%s", other)
		}
	}
	if !zero || len(words) != 2 {
		return bad("only nc -z HOST PORT is served")
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(words[0], words[1]), timeout)
	if err != nil {
		fmt.Fprintf(stderr, "nc: %v\n", err)
		return exitFailed
	}
	conn.Close()
	return exitOK
}
