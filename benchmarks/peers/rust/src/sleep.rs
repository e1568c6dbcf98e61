//! `tokio::time::Sleep`: boxed, polled once with the waker of the task that holds them all; reset to move.

use std::cell::RefCell;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{sleep, sleep_until, Instant, Sleep};

use crate::process::cpu_ns;
use crate::works::{fired, instant_for, lateness as quantiles, micros_after, rounds, Draw, Found, Timers};

pub struct Sleeps {
    handles: Vec<Option<Pin<Box<Sleep>>>>,
    waker: Waker,
}

impl Sleeps {
    pub async fn new(n: usize) -> Self {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let mut handles = Vec::with_capacity(n);
        handles.resize_with(n, || None);
        Self { handles, waker }
    }
}

impl Timers for Sleeps {
    fn set(&mut self, place: usize, at: Instant) {
        let mut timer = Box::pin(sleep_until(at));
        assert!(timer.as_mut().poll(&mut Context::from_waker(&self.waker)).is_pending());
        self.handles[place] = Some(timer);
    }

    fn cancel(&mut self, place: usize) {
        self.handles[place] = None;
    }

    fn move_to(&mut self, place: usize, at: Instant) {
        self.handles[place].as_mut().expect("pending").as_mut().reset(at);
    }
}

/// Fire as programs on tokio do: a task for each timer.
pub async fn fire(n: usize) -> Found {
    let mut spent = Vec::new();
    for _ in 0..rounds(n) {
        let begin = cpu_ns();
        let at = instant_for(n);
        let tasks: Vec<_> = (0..n).map(|_| tokio::spawn(sleep_until(at))).collect();
        for task in tasks {
            task.await.expect("slept");
        }
        spent.push((cpu_ns() - begin) as f64 / n as f64);
    }
    fired(spent)
}

pub async fn lateness(n: usize) -> Found {
    let mut draw = Draw::new();
    let late = Rc::new(RefCell::new(Vec::with_capacity(n)));
    let tasks = tokio::task::LocalSet::new();
    let noted = late.clone();
    tasks
        .run_until(async move {
            for place in 1..=n {
                let delay = Duration::from_millis(1 + draw.below(50) as u64);
                let (deadline, late) = (Instant::now() + delay, noted.clone());
                tokio::task::spawn_local(async move {
                    sleep(delay).await;
                    late.borrow_mut().push(micros_after(deadline));
                });
                if place % 100 == 0 {
                    sleep(Duration::from_millis(5)).await;
                }
            }
            sleep(Duration::from_millis(500)).await;
        })
        .await;
    let late = late.take();
    quantiles(late, n)
}
