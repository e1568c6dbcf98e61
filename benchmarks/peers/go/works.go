package main

import (
	"math/rand"
	"sort"
	"sync/atomic"
	"time"
)

const (
	chunk  = 1_000
	seed   = 20_260
	latest = 7_200 * time.Second
	warm   = 100 * time.Millisecond
	window = 300 * time.Millisecond
)

func nothing() {}

// Weigh a population, let it wait for a second, then set and cancel one more timer, and move those that wait.
func pending(t timers, n int) map[string]float64 {
	draw := rand.New(rand.NewSource(seed))
	delays, everyone, busy := make([]time.Duration, n), make([]int, 1<<20), make([]int, chunk)
	for place := range delays {
		delays[place] = latest/4 + time.Duration(draw.Int63n(int64(latest*3/4)))
	}
	for place := range everyone {
		everyone[place] = draw.Intn(n)
	}
	copy(busy, draw.Perm(n))
	steps := make([]time.Duration, chunk)
	for place := range steps {
		steps[place] = time.Second + time.Duration(draw.Int63n(int64(29*time.Second)))
	}
	t.Set(n, latest, nothing) // whatever is made on first use is made before
	t.Cancel(n)
	time.Sleep(10 * time.Millisecond)
	resident, live := weigh()
	for place, delay := range delays {
		t.Set(place, delay, nothing)
	}
	time.Sleep(300 * time.Millisecond)
	residentAfter, liveAfter := weigh()
	found := map[string]float64{
		"bytes per timer":       float64(residentAfter-resident) / float64(n),
		"bytes per timer, live": float64(liveAfter-live) / float64(n),
	}
	switches, cpu := switched(), cpuNs()
	time.Sleep(time.Second)
	found["idle second"] = float64(cpuNs()-cpu) / 1e3
	found["wake-ups"] = float64(switched() - switches - 1)
	found["set+cancel"] = each(func(int, int) {
		t.Set(n, latest, nothing)
		t.Cancel(n)
	})
	found["move"] = each(func(c, i int) {
		t.Move(busy[i], latest+time.Duration(c)*30*time.Second+steps[i])
	})
	found["move, cold"] = each(func(c, i int) {
		t.Move(everyone[(c*chunk+i)&(1<<20-1)], 2*latest+time.Duration(c)*30*time.Second+steps[i])
	})
	return found
}

// Return the CPU nanoseconds of one step, of all that run in the window.
func each(step func(c, i int)) float64 {
	c := 0
	run := func(limit time.Duration) float64 {
		begin, first := cpuNs(), c
		for cpuNs()-begin < int64(limit) {
			for i := 0; i < chunk; i++ {
				step(c, i)
			}
			c++
		}
		return float64(cpuNs()-begin) / float64((c-first)*chunk)
	}
	run(warm)
	return run(window)
}

// Set n timers for one instant, until the last has been called.
func fire(t timers, n int) map[string]float64 {
	var spent []float64
	for round := 0; round < max(3, min(20, 500_000/n)); round++ {
		var count atomic.Int64
		done := make(chan struct{})
		call := func() {
			if count.Add(1) == int64(n) {
				close(done)
			}
		}
		begin := cpuNs()
		when := time.Now().Add(20*time.Millisecond + time.Duration(n)*2*time.Microsecond)
		for place := 0; place < n; place++ {
			t.Set(place, max(1, time.Until(when)), call)
		}
		<-done
		spent = append(spent, float64(cpuNs()-begin)/float64(n))
	}
	sort.Float64s(spent)
	return map[string]float64{"set+fire": spent[len(spent)/2]}
}

// Set n short timers at an even pace, each of whole milliseconds, and note how late each is called.
func lateness(t timers, n int) map[string]float64 {
	draw := rand.New(rand.NewSource(seed))
	late, count := make([]float64, n), atomic.Int64{}
	for place := 0; place < n; place++ {
		delay := time.Duration(1+draw.Intn(50)) * time.Millisecond
		deadline := time.Now().Add(delay)
		t.Set(place, delay, func() {
			late[count.Add(1)-1] = float64(time.Since(deadline)) / 1e3
		})
		if place%100 == 99 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	for patience := 0; int(count.Load()) < n && patience < 50; patience++ {
		time.Sleep(100 * time.Millisecond)
	}
	fired := int(count.Load())
	late = late[:fired]
	sort.Float64s(late)
	return map[string]float64{
		"lateness p50": late[fired/2],
		"lateness p99": late[fired*99/100],
		"early":        float64(sort.SearchFloat64s(late, 0)),
		"lost":         float64(n - fired),
	}
}
