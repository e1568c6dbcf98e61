//! `tokio_util::time::DelayQueue`: a wheel of ticks of 1 ms with its entries in a slab, polled by one task.

use std::future::{poll_fn, Future};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{sleep, Instant};
use tokio_util::time::delay_queue::{DelayQueue, Key};

use crate::process::cpu_ns;
use crate::works::{fired, instant_for, lateness as quantiles, micros_after, rounds, Draw, Found, Timers};

pub struct Queue {
    queue: DelayQueue<()>,
    keys: Vec<Option<Key>>,
}

impl Queue {
    pub fn new(n: usize) -> Self {
        Self { queue: DelayQueue::new(), keys: vec![None; n] }
    }
}

impl Timers for Queue {
    fn set(&mut self, place: usize, at: Instant) {
        self.keys[place] = Some(self.queue.insert_at((), at));
    }

    fn cancel(&mut self, place: usize) {
        self.queue.remove(&self.keys[place].take().expect("pending"));
    }

    fn move_to(&mut self, place: usize, at: Instant) {
        self.queue.reset_at(self.keys[place].as_ref().expect("pending"), at);
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        assert!(self.queue.is_empty() || self.queue.poll_expired(context).is_pending());
    }
}

pub async fn fire(n: usize) -> Found {
    let mut spent = Vec::new();
    for _ in 0..rounds(n) {
        let mut queue = DelayQueue::new();
        let begin = cpu_ns();
        let at = instant_for(n);
        for _ in 0..n {
            queue.insert_at((), at);
        }
        for _ in 0..n {
            poll_fn(|context| queue.poll_expired(context)).await.expect("as many as were set");
        }
        spent.push((cpu_ns() - begin) as f64 / n as f64);
    }
    fired(spent)
}

pub async fn lateness(n: usize) -> Found {
    let mut draw = Draw::new();
    let mut queue = DelayQueue::new();
    let mut late = Vec::with_capacity(n);
    for place in 1..=n {
        let delay = Duration::from_millis(1 + draw.below(50) as u64);
        queue.insert(Instant::now() + delay, delay);
        if place % 100 == 0 {
            let mut pace = pin!(sleep(Duration::from_millis(if place == n { 500 } else { 5 })));
            poll_fn(|context| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
                    late.push(micros_after(expired.into_inner()));
                }
                pace.as_mut().poll(context)
            })
            .await;
        }
    }
    quantiles(late, n)
}
