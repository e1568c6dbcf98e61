// The works of the benchmark of peers, for the timers of Go: main TICK_MS WORK N prints one line of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// What each file with a build tag of its own provides by open(n, tick): timers known by their places, 0 to n-1.
type timers interface {
	Set(place int, delay time.Duration, call func())
	Cancel(place int)
	Move(place int, delay time.Duration)
}

func main() {
	tick, err := strconv.Atoi(os.Args[1])
	check(err)
	n, err := strconv.Atoi(os.Args[3])
	check(err)
	works := map[string]func(timers, int) map[string]float64{"pending": pending, "fire": fire, "lateness": lateness}
	found := works[os.Args[2]](open(n+1, time.Duration(tick)*time.Millisecond), n)
	line, err := json.Marshal(found)
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
