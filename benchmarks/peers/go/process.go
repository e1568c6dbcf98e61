package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

const clockProcessCPU = 2

// Return the CPU nanoseconds of all threads.
func cpuNs() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPU, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

// Return the bytes of the resident set and of the live heap, after a collection.
func weigh() (resident, live int64) {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	var size, pages int64
	fmt.Sscan(string(text), &size, &pages)
	return pages * int64(os.Getpagesize()), int64(stats.HeapAlloc)
}

// Return how often all threads have gone to sleep.
func switched() int {
	total := 0
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // a thread may have ended
		var count int
		_, after, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		fmt.Sscan(after, &count)
		total += count
	}
	return total
}
