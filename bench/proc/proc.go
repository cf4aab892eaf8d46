// Package proc reads what the kernel counts about a process.
package proc

// Memory is resident memory in bytes. Resident contains the pages of the
// program file; Anonymous is what the process wrote itself; Peak is the
// highest Resident so far.
type Memory struct {
	Resident  int64 `json:"resident"`
	Anonymous int64 `json:"anonymous"`
	Peak      int64 `json:"peak"`
}
