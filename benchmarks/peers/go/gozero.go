//go:build gozero

package main

import (
	"time"

	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/logx"
)

// As many slots as go-zero's own cache uses.
const slots = 300

// One ring of slots; a goroutine owns it, and every call goes there over a channel.
type goZero struct {
	wheel *collection.TimingWheel
}

func open(_ int, tick time.Duration) timers {
	logx.Disable()
	wheel, err := collection.NewTimingWheel(tick, slots, func(_, call any) { call.(func())() })
	check(err)
	return goZero{wheel}
}

func (t goZero) Set(place int, delay time.Duration, call func()) {
	check(t.wheel.SetTimer(place, call, delay))
}

func (t goZero) Cancel(place int) {
	check(t.wheel.RemoveTimer(place))
}

func (t goZero) Move(place int, delay time.Duration) {
	check(t.wheel.MoveTimer(place, delay))
}
