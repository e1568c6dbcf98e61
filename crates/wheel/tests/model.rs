//! Random operations on a wheel and on a sorted list, whose results must agree. The invariants of the wheel are checked
//! too.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use proptest::prelude::*;
use tickwheel_core::{Id, Owner, Pop, Wheel, NEVER};

/// The payload: the deadline that the owner knows and, if the wheel does not know the last move yet, the sequence number
/// of that move.
type Handle = Rc<Cell<(u64, Option<u64>)>>;

/// An owner that moves entries itself where the wheel allows it.
#[derive(Debug)]
struct Mover;

impl Owner<Handle> for Mover {
    fn moved(handle: &Handle) -> Option<(u64, u64)> {
        let (deadline, sequence) = handle.get();
        Some((deadline, sequence?))
    }
}

fn insert<O: Owner<Handle>>(wheel: &mut Wheel<Handle, O>, deadline: u64) -> Id {
    wheel.insert(deadline, Rc::new(Cell::new((deadline, None))))
}

/// Move an entry as its handle would do; if the wheel has no owner, the wheel moves it.
fn shift<O: Owner<Handle>>(wheel: &mut Wheel<Handle, O>, is_owned: bool, id: Id, deadline: u64) -> bool {
    let Some((former, handle)) = wheel.get(id).map(|(former, handle)| (former, handle.clone())) else {
        return wheel.reschedule(id, deadline);
    };
    let sequence = if is_owned { wheel.postpone(former, deadline) } else { None };
    if sequence.is_none() {
        wheel.reschedule_at(id.index(), deadline);
    }
    handle.set((deadline, sequence));
    true
}

/// An operation on the wheel. Instants are offsets from the current time of the wheel. Many of them are near a multiple
/// of a power of two, where the level of an entry may change.
#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Cancel(usize),
    Move(usize, u64),
    /// Advance the time, and pop at most `limit` entries with at most `work`; set and cancel other entries in between.
    Turn {
        ahead: u64,
        limit: usize,
        work: usize,
        inside: Vec<(usize, u64)>,
    },
    Next,
    Back(u64),
    /// Move the origin of time to a later instant.
    Rebase(u64),
    Drain,
}

fn distance() -> impl Strategy<Value = u64> {
    let edge = (0u32..62, 0u64..3, 1u64..4).prop_map(|(bit, below, times)| (times << bit).saturating_sub(below));
    prop_oneof![4 => 0u64..5_000, 4 => 0u64..10_000_000, 4 => edge, 1 => Just(NEVER)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => distance().prop_map(Step::Insert),
        3 => any::<usize>().prop_map(Step::Cancel),
        4 => (any::<usize>(), distance()).prop_map(|(which, ahead)| Step::Move(which, ahead)),
        4 => (distance(), 0usize..100, 0usize..100, prop::collection::vec((any::<usize>(), distance()), 0..4))
            .prop_map(|(ahead, limit, work, inside)| Step::Turn { ahead, limit, work, inside }),
        3 => Just(Step::Next),
        1 => (0u64..100_000).prop_map(Step::Back),
        1 => distance().prop_map(Step::Rebase),
        1 => Just(Step::Drain),
    ]
}

#[derive(Default)]
struct Model {
    pending: HashMap<Id, (u64, u64)>,
    ids: Vec<Id>,
    order: u64,
}

impl Model {
    fn file(&mut self, id: Id, deadline: u64) {
        self.order += 1;
        self.pending.insert(id, (deadline, self.order));
    }

    fn pick(&self, which: usize) -> Option<Id> {
        (!self.ids.is_empty()).then(|| self.ids[which % self.ids.len()])
    }

    fn first_due(&self, now: u64, before: u64) -> Option<Id> {
        let due = self
            .pending
            .iter()
            .filter(|(_, &(deadline, order))| deadline <= now && deadline < NEVER && order <= before);
        due.min_by_key(|(_, &key)| key).map(|(&id, _)| id)
    }

    fn least(&self) -> Option<u64> {
        self.pending.values().map(|&(deadline, _)| deadline).min().filter(|&least| least < NEVER)
    }
}

fn clamp(time: u64) -> u64 {
    time.min(NEVER)
}

#[allow(clippy::too_many_lines)] // an arm for each step
fn run<O: Owner<Handle>>(mut wheel: Wheel<Handle, O>, is_owned: bool, start: u64, crowd: usize, steps: Vec<Step>) {
    let mut model = Model::default();
    let mut now = start;
    for number in 0..crowd {
        let deadline = clamp(now.saturating_add(700_000 + number as u64 % 7));
        let id = insert(&mut wheel, deadline);
        model.ids.push(id);
        model.file(id, deadline);
    }
    for step in steps {
        match step {
            Step::Insert(ahead) => {
                let deadline = clamp(now.saturating_add(ahead));
                let id = insert(&mut wheel, deadline);
                assert!(!model.ids.contains(&id), "an id is given once");
                model.ids.push(id);
                model.file(id, deadline);
            }
            Step::Cancel(which) => {
                let Some(id) = model.pick(which) else {
                    continue;
                };
                assert_eq!(wheel.cancel(id).is_some(), model.pending.remove(&id).is_some());
            }
            Step::Move(which, ahead) => {
                let Some(id) = model.pick(which) else {
                    continue;
                };
                let deadline = clamp(now.saturating_add(ahead));
                let was_pending = model.pending.contains_key(&id);
                assert_eq!(shift(&mut wheel, is_owned, id, deadline), was_pending);
                if was_pending {
                    model.file(id, deadline);
                }
            }
            Step::Turn { ahead, limit, mut work, inside } => {
                now = clamp(now.saturating_add(ahead));
                let before = model.order;
                wheel.begin_turn(now);
                let mut inside = inside.into_iter();
                for _ in 0..limit {
                    match wheel.pop(&mut work) {
                        Pop::Expired(expired) => {
                            let expected = model.first_due(now, before);
                            assert_eq!(Some(expired.id), expected, "the earliest, first set first");
                            let (deadline, _) = model.pending.remove(&expired.id).expect("it was pending");
                            assert_eq!(deadline, expired.deadline);
                        }
                        Pop::Nothing => {
                            assert_eq!(model.first_due(now, before), None, "nothing due is left behind");
                            break;
                        }
                        Pop::Busy => work = 10,
                    }
                    if let Some((which, ahead)) = inside.next() {
                        let is_past = ahead % 3 == 0;
                        let deadline =
                            if is_past { now.saturating_sub(ahead) } else { clamp(now.saturating_add(ahead)) };
                        let id = insert(&mut wheel, deadline);
                        model.ids.push(id);
                        model.file(id, deadline);
                        let other = model.pick(which).expect("one was just set");
                        if which % 2 == 0 {
                            assert_eq!(wheel.cancel(other).is_some(), model.pending.remove(&other).is_some());
                        } else if model.pending.contains_key(&other) {
                            assert!(shift(&mut wheel, is_owned, other, deadline));
                            model.file(other, deadline);
                        }
                        wheel.check();
                    }
                }
                wheel.end_turn();
            }
            Step::Next => {
                assert_eq!(wheel.next_expiration(), model.least());
                let mut expected: Vec<Id> = model.pending.keys().copied().collect();
                expected.sort_by_key(|id| model.pending[id]);
                for limit in [0, 3, usize::MAX] {
                    let first: Vec<Id> = wheel.first(limit).into_iter().map(|(id, ..)| id).collect();
                    assert_eq!(first, expected[..limit.min(expected.len())]);
                }
            }
            Step::Back(by) => now = now.saturating_sub(by),
            Step::Rebase(_) if is_owned => {}
            Step::Rebase(by) => {
                wheel.rebase(by);
                now = now.saturating_sub(by);
                let mut ids: Vec<Id> = model.pending.keys().copied().collect();
                ids.sort_by_key(|id| model.pending[id]);
                for id in ids {
                    let (deadline, _) = model.pending[&id];
                    model.file(id, if deadline >= NEVER { deadline } else { deadline.saturating_sub(by) });
                }
            }
            Step::Drain => {
                let drained: Vec<Id> = wheel.drain().into_iter().map(|expired| expired.id).collect();
                let mut expected: Vec<Id> = model.pending.keys().copied().collect();
                expected.sort_by_key(|id| model.pending[id]);
                assert_eq!(drained, expected);
                model.pending.clear();
            }
        }
        assert_eq!(wheel.len(), model.pending.len());
        wheel.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// The wheel behaves like a sorted list, whatever time it begins at.
    #[test]
    fn a_wheel_does_what_a_sorted_list_does(
        bit in 0u32..63,
        below in 0u64..3000,
        crowd in prop_oneof![4 => Just(0usize), 1 => 60usize..300],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let start = (1u64 << bit).saturating_sub(below);
        run::<()>(Wheel::owned(start), false, start, crowd, steps.clone());
        run::<Mover>(Wheel::owned(start), true, start, crowd, steps);
    }
}
