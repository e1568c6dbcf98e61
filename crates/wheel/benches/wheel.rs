//! Benchmarks of the core, with ten thousand to ten million pending entries. The time of an operation should be about
//! the same for each number of entries.

#![allow(missing_docs)] // criterion's macros write public functions

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use criterion::{criterion_group, criterion_main, Criterion};
use tickwheel_core::{Pop, Wheel};

const PENDING: [usize; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
const SECOND: u64 = 1_000_000_000;
/// Number of operations per batch. It is small, so that the number of pending entries stays about the same.
const BATCH: u64 = 1_000;

/// Return a pseudo-random delay between half a minute and a minute, as on a busy server. It is computed from `number`
/// by multiplicative hashing.
fn delay(number: u64) -> u64 {
    30 * SECOND + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (30 * SECOND)
}

/// The payload: 64 bits that are never all zero, like the pointers of the bindings.
const PAYLOAD: NonZeroU64 = NonZeroU64::MIN;

fn full(pending: usize) -> Wheel<NonZeroU64> {
    let mut wheel = Wheel::new(0);
    for number in 0..pending as u64 {
        wheel.insert(delay(number), PAYLOAD);
    }
    wheel
}

/// Return the time that `each` takes for `rounds` operations, in batches. The time of `prepare` and `undo` is not
/// measured.
fn timed<T>(
    rounds: u64,
    mut prepare: impl FnMut(u64) -> T,
    mut each: impl FnMut(u64, &mut T),
    mut undo: impl FnMut(T),
) -> Duration {
    let mut spent = Duration::ZERO;
    let mut done = 0;
    while done < rounds {
        let count = BATCH.min(rounds - done);
        let mut batch = prepare(count);
        let begun = Instant::now();
        each(count, &mut batch);
        spent += begun.elapsed();
        undo(batch);
        done += count;
    }
    spent
}

fn core(criterion: &mut Criterion) {
    for pending in PENDING {
        let wheel = std::cell::RefCell::new(full(pending));
        let number = std::cell::Cell::new(0u64);
        let next = || number.replace(number.get() + 1);

        criterion.bench_function(&format!("insert/{pending}"), |bench| {
            bench.iter_custom(|rounds| {
                timed(
                    rounds,
                    |count| {
                        let deadlines: Vec<u64> = (0..count).map(|_| delay(next())).collect();
                        (deadlines, Vec::with_capacity(count as usize))
                    },
                    |_, (deadlines, ids)| {
                        let mut wheel = wheel.borrow_mut();
                        for &deadline in deadlines.iter() {
                            ids.push(wheel.insert(deadline, PAYLOAD));
                        }
                    },
                    |(_, ids)| {
                        for id in ids {
                            wheel.borrow_mut().cancel(id);
                        }
                    },
                )
            });
        });
        criterion.bench_function(&format!("cancel/{pending}"), |bench| {
            bench.iter_custom(|rounds| {
                timed(
                    rounds,
                    |count| (0..count).map(|_| wheel.borrow_mut().insert(delay(next()), PAYLOAD)).collect::<Vec<_>>(),
                    |_, ids| {
                        let mut wheel = wheel.borrow_mut();
                        for &id in ids.iter() {
                            black_box(wheel.cancel(id));
                        }
                    },
                    drop,
                )
            });
        });
        criterion.bench_function(&format!("move to later/{pending}"), |bench| {
            let id = wheel.borrow_mut().insert(delay(0), PAYLOAD);
            let mut later = 60 * SECOND;
            bench.iter(|| {
                later += 1;
                wheel.borrow_mut().reschedule(black_box(id), later)
            });
            wheel.borrow_mut().cancel(id);
        });
        criterion.bench_function(&format!("poll with nothing due/{pending}"), |bench| {
            let mut now = 0;
            bench.iter(|| {
                now += 1;
                let mut wheel = wheel.borrow_mut();
                wheel.begin_turn(black_box(now));
                let answer = matches!(wheel.pop(&mut usize::MAX.clone()), Pop::Nothing);
                wheel.end_turn();
                answer
            });
        });
        criterion.bench_function(&format!("next_expiration/{pending}"), |bench| {
            bench.iter(|| wheel.borrow_mut().next_expiration());
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = core
}
criterion_main!(benches);
