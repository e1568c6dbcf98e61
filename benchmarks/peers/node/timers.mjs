// The works of the benchmark of peers, for Node's timers: `node --expose-gc timers.mjs WORK N` prints one line of JSON.
// A turn of the loop follows every chunk, as timers take the time of their turn.

import { readFileSync, readdirSync } from "node:fs";

const CHUNK = 1_000;
const LATEST = 7_200_000;
const STEP = 30_000;
const WARM_US = 500_000;
const WINDOW_US = 300_000;

const nothing = () => {};
const turn = () => new Promise((resolve) => setImmediate(resolve));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A small generator of random numbers with a seed (mulberry32), which Node has not.
let state = 20_260;
const draw = (end) => {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * end);
};
const drawn = (size, end) => Int32Array.from({ length: size }, () => draw(end));

const cpuUs = () => {
  const { user, system } = process.cpuUsage();
  return user + system;
};

const weigh = () => {
  gc();
  return { resident: process.memoryUsage.rss(), live: process.memoryUsage().heapUsed };
};

const switched = () => {
  const texts = readdirSync("/proc/self/task").map((task) => readFileSync(`/proc/self/task/${task}/status`, "ascii"));
  return texts.reduce((sum, text) => sum + Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(text)[1]), 0);
};

// Return the CPU nanoseconds of one step, of all that runs in the window, after what warms it up.
const each = async (step) => {
  let chunk = 0;
  let figure = 0;
  for (const limit of [WARM_US, WINDOW_US]) {
    const [begin, first] = [cpuUs(), chunk];
    while (cpuUs() - begin < limit) {
      for (let i = 0; i < CHUNK; i++) step(chunk, i);
      chunk++;
      await turn();
    }
    figure = ((cpuUs() - begin) * 1e3) / ((chunk - first) * CHUNK);
  }
  return figure;
};

const works = {
  // Weigh a population, let it wait for a second, then set and cancel one more timer, and move those that wait.
  async pending(n) {
    const delays = drawn(n, (LATEST * 3) / 4).map((delay) => delay + LATEST / 4);
    const everyone = drawn(1 << 20, n);
    const busy = everyone.slice(0, CHUNK);
    const steps = drawn(CHUNK, STEP - 1_000).map((step) => step + 1_000);
    const handles = new Array(n).fill(null);
    clearTimeout(setTimeout(nothing, LATEST)); // whatever is made on first use is made before
    await sleep(10);
    const before = weigh();
    for (let place = 0; place < n; place++) handles[place] = setTimeout(nothing, delays[place]);
    await sleep(300);
    const after = weigh();
    const found = {
      "bytes per timer": (after.resident - before.resident) / n,
      "bytes per timer, live": (after.live - before.live) / n,
    };
    const [switches, cpu] = [switched(), cpuUs()];
    await sleep(1_000);
    found["idle second"] = cpuUs() - cpu;
    found["wake-ups"] = switched() - switches - 1;
    found["set+cancel"] = await each(() => clearTimeout(setTimeout(nothing, LATEST)));
    const move = (place, delay) => {
      clearTimeout(handles[place]);
      handles[place] = setTimeout(nothing, delay);
    };
    found.restart = await each((_chunk, i) => handles[busy[i]].refresh());
    found.move = await each((chunk, i) => move(busy[i], LATEST + chunk * STEP + steps[i]));
    const places = (chunk, i) => everyone[(chunk * CHUNK + i) & ((1 << 20) - 1)];
    found["move, cold"] = await each((chunk, i) => move(places(chunk, i), 2 * LATEST + chunk * STEP + steps[i]));
    return found;
  },

  // Set n timers for one instant, until the last has been called; before that, as many as warm it up.
  async fire(n) {
    const batch = (size) =>
      new Promise((resolve) => {
        let count = 0;
        const begin = cpuUs();
        const call = () => {
          if (++count === size) resolve(((cpuUs() - begin) * 1e3) / size);
        };
        const when = performance.now() + 20 + size * 0.002;
        for (let place = 0; place < size; place++) setTimeout(call, when - performance.now());
      });
    for (let round = 0; round < 10; round++) await batch(20_000);
    const spent = [];
    for (let round = Math.max(3, Math.min(20, 500_000 / n)); round > 0; round--) spent.push(await batch(n));
    return { "set+fire": spent.sort((one, other) => one - other)[spent.length >> 1] };
  },

  // Set n short timers at an even pace, each of whole milliseconds, and note how late each is called.
  async lateness(n) {
    let late = [];
    for (const size of [10_000, n]) {
      late = [];
      for (let place = 1; place <= size; place++) {
        const delay = 1 + draw(50);
        const deadline = performance.now() + delay;
        setTimeout(() => late.push((performance.now() - deadline) * 1e3), delay);
        if (place % 100 === 0) await sleep(5);
      }
      await sleep(500);
    }
    late.sort((one, other) => one - other);
    return {
      "lateness p50": late[late.length >> 1],
      "lateness p99": late[Math.floor((late.length * 99) / 100)],
      early: late.filter((value) => value < 0).length,
      lost: n - late.length,
    };
  },
};

const [, , work, n] = process.argv;
console.log(JSON.stringify(await works[work](Number(n))));
process.exit(0);
