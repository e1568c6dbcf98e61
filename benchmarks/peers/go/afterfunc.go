//go:build afterfunc

package main

import "time"

// The runtime's own timers: a heap of each processor; a callback runs in a goroutine of its own.
type afterFunc []*time.Timer

func open(n int, _ time.Duration) timers {
	handles, none := make(afterFunc, n), &time.Timer{}
	for place := range handles {
		handles[place] = none // so that the slice itself is resident before anything is weighed
	}
	return handles
}

func (t afterFunc) Set(place int, delay time.Duration, call func()) {
	t[place] = time.AfterFunc(delay, call)
}

func (t afterFunc) Cancel(place int) {
	t[place].Stop()
}

func (t afterFunc) Move(place int, delay time.Duration) {
	t[place].Reset(delay)
}
