// Package mutants proves that the tests of the store notice when it is wrong: each
// mutant is one deliberate mistake in one file, compiled beside the sources
// (go test -overlay), under which the named tests of that package have to fail.
package mutants
