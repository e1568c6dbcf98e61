//go:build russellluo

package main

import (
	"time"

	"github.com/RussellLuo/timingwheel"
)

// As many slots as its README uses.
const slots = 20

// Kafka's design: rings above rings of slots, which wait in a delay queue; no move.
type russellLuo struct {
	wheel   *timingwheel.TimingWheel
	handles []*timingwheel.Timer
}

func open(n int, tick time.Duration) timers {
	t := russellLuo{timingwheel.NewTimingWheel(tick, slots), make([]*timingwheel.Timer, n)}
	t.wheel.Start()
	none := &timingwheel.Timer{}
	for place := range t.handles {
		t.handles[place] = none // so that the slice itself is resident before anything is weighed
	}
	return t
}

func (t russellLuo) Set(place int, delay time.Duration, call func()) {
	t.handles[place] = t.wheel.AfterFunc(delay, call)
}

func (t russellLuo) Cancel(place int) {
	t.handles[place].Stop()
}

func (t russellLuo) Move(place int, delay time.Duration) {
	t.handles[place].Stop()
	t.handles[place] = t.wheel.AfterFunc(delay, nothing)
}
