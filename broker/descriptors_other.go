//go:build !unix

package broker

// descriptorLimit is how many files the process may have open; 0 if not known.
func descriptorLimit() int { return 0 }
