//! The works that all timers share.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{sleep, Instant};

use crate::process::{cpu_ns, resident, switched};

pub type Found = Vec<(&'static str, f64)>;

const CHUNK: usize = 1_000;
const MANY: usize = 1 << 20;
const LATEST: Duration = Duration::from_secs(7_200);
const STEP: Duration = Duration::from_secs(30);
const WARM_NS: u64 = 100_000_000;
const WINDOW_NS: u64 = 300_000_000;

/// Timers known by their places, 0 to n-1.
pub trait Timers {
    fn set(&mut self, place: usize, at: Instant);
    fn cancel(&mut self, place: usize);
    fn move_to(&mut self, place: usize, at: Instant);

    /// Wait for whatever is due first, where the runtime alone does not.
    fn poll(&mut self, _context: &mut Context<'_>) {}
}

/// A small generator of random numbers (xorshift), which needs no crate.
pub struct Draw(u64);

impl Draw {
    pub fn new() -> Self {
        Self(20_260)
    }

    /// Return a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Weigh a population, let it wait for a second, then set and cancel one more timer, and move those that wait.
pub async fn pending(mut timers: impl Timers, n: usize) -> Found {
    let mut draw = Draw::new();
    let start = Instant::now();
    let instants: Vec<_> =
        (0..n).map(|_| start + LATEST / 4 + Duration::from_micros(draw.below(5_400_000_000) as u64)).collect();
    let everyone: Vec<_> = (0..MANY).map(|_| draw.below(n)).collect();
    let mut places: Vec<_> = (0..n).collect();
    for place in 0..CHUNK.min(n) {
        places.swap(place, place + draw.below(n - place));
    }
    let steps: Vec<_> = (0..CHUNK).map(|_| Duration::from_millis(1_000 + draw.below(29_000) as u64)).collect();
    timers.set(n, start + LATEST); // whatever is made on first use is made before
    timers.cancel(n);
    sleep(Duration::from_millis(10)).await;
    let before = resident();
    for (place, at) in instants.iter().enumerate() {
        timers.set(place, *at);
    }
    wait(&mut timers, Duration::from_millis(300)).await;
    let mut found = vec![("bytes per timer", (resident() - before) as f64 / n as f64)];
    let (switches, cpu) = (switched(), cpu_ns());
    wait(&mut timers, Duration::from_secs(1)).await;
    found.push(("idle second", (cpu_ns() - cpu) as f64 / 1e3));
    found.push(("wake-ups", switched() as f64 - switches as f64 - 1.0));
    let set_cancel = each(&mut timers, |timers, _, _| {
        timers.set(n, start + LATEST);
        timers.cancel(n);
    });
    found.push(("set+cancel", set_cancel.await));
    let busy = each(&mut timers, |timers, c, i| timers.move_to(places[i % n], start + LATEST + STEP * c + steps[i]));
    found.push(("move", busy.await));
    let cold = each(&mut timers, |timers, c, i| {
        timers.move_to(everyone[(c as usize * CHUNK + i) % MANY], start + 2 * LATEST + STEP * c + steps[i]);
    });
    found.push(("move, cold", cold.await));
    found
}

async fn wait(timers: &mut impl Timers, time: Duration) {
    let mut time = pin!(sleep(time));
    poll_fn(|context| {
        timers.poll(context);
        time.as_mut().poll(context)
    })
    .await;
}

/// Return the CPU nanoseconds of one step, a turn of the runtime after every chunk.
async fn each<T: Timers>(timers: &mut T, mut step: impl FnMut(&mut T, u32, usize)) -> f64 {
    let mut c = 0;
    let mut figure = 0.0;
    for limit in [WARM_NS, WINDOW_NS] {
        let (begin, first) = (cpu_ns(), c);
        while cpu_ns() - begin < limit {
            for i in 0..CHUNK {
                step(timers, c, i);
            }
            c += 1;
            poll_fn(|context| {
                timers.poll(context); // or nothing would wake it any more
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
        figure = (cpu_ns() - begin) as f64 / ((c - first) as usize * CHUNK) as f64;
    }
    figure
}

/// Return how often n timers are fired.
pub fn rounds(n: usize) -> usize {
    (500_000 / n).clamp(3, 20)
}

/// Return when n timers are due that are set now.
pub fn instant_for(n: usize) -> Instant {
    Instant::now() + Duration::from_millis(20) + Duration::from_micros(2) * n as u32
}

/// Return the median of what the rounds have spent for each timer.
pub fn fired(mut spent: Vec<f64>) -> Found {
    spent.sort_by(f64::total_cmp);
    vec![("set+fire", spent[spent.len() / 2])]
}

/// Return the quantiles of how late n timers were, in microseconds.
pub fn lateness(mut late: Vec<f64>, n: usize) -> Found {
    late.sort_by(f64::total_cmp);
    vec![
        ("lateness p50", late[late.len() / 2]),
        ("lateness p99", late[late.len() * 99 / 100]),
        ("early", late.iter().filter(|value| **value < 0.0).count() as f64),
        ("lost", (n - late.len()) as f64),
    ]
}

/// Return how many microseconds after `deadline` it is.
pub fn micros_after(deadline: Instant) -> f64 {
    let now = Instant::now();
    (now.saturating_duration_since(deadline).as_nanos() as f64
        - deadline.saturating_duration_since(now).as_nanos() as f64)
        / 1e3
}
