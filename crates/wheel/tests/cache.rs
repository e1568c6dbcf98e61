//! The parts of a cache, compared with simple collections of the standard library under random operations.

use std::collections::{BTreeMap, HashMap, VecDeque};

use proptest::prelude::*;
use tickwheel_core::{tag_of, FreeList, Order, Table, Watches};

/// Generate tags: some at the same position of a table, some that wrap around its end, and some that are spread.
fn tag() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0u32..4, 3 => (0u32..4).prop_map(|low| u32::MAX - low), 2 => (0isize..50).prop_map(tag_of), 1 => any::<u32>()]
}

#[derive(Clone, Debug)]
enum TableStep {
    Insert(u32),
    Remove(usize),
    RemoveAll(usize, usize),
    Shrink,
}

fn table_step() -> impl Strategy<Value = TableStep> {
    prop_oneof![
        8 => tag().prop_map(TableStep::Insert),
        4 => any::<usize>().prop_map(TableStep::Remove),
        1 => (any::<usize>(), 0usize..40).prop_map(|(from, count)| TableStep::RemoveAll(from, count)),
        1 => Just(TableStep::Shrink),
    ]
}

#[derive(Clone, Debug)]
enum OrderStep {
    Add,
    Use(usize),
    Remove(usize),
}

fn order_step() -> impl Strategy<Value = OrderStep> {
    prop_oneof![
        3 => Just(OrderStep::Add),
        3 => any::<usize>().prop_map(OrderStep::Use),
        2 => any::<usize>().prop_map(OrderStep::Remove),
    ]
}

#[derive(Clone, Debug)]
enum WatchStep {
    Begin(Vec<u32>),
    End(usize),
    Note(u32),
    NoteAll,
}

fn watch_step() -> impl Strategy<Value = WatchStep> {
    prop_oneof![
        3 => prop::collection::vec(0u32..6, 0..4).prop_map(WatchStep::Begin),
        2 => any::<usize>().prop_map(WatchStep::End),
        4 => (0u32..6).prop_map(WatchStep::Note),
        1 => Just(WatchStep::NoteAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// After every step, a table has the same indices under each tag as a map of lists.
    #[test]
    fn a_table_finds_what_a_map_finds(steps in prop::collection::vec(table_step(), 1..200)) {
        let mut table: Table = Table::new();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new(); // by index
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                TableStep::Insert(tag) => {
                    table.insert(tag, number as u32);
                    model.insert(number as u32, tag);
                }
                TableStep::Remove(which) if !model.is_empty() => {
                    let (&index, &tag) = model.iter().nth(which % model.len()).expect("it has so many");
                    table.remove(tag, index);
                    model.remove(&index);
                }
                TableStep::RemoveAll(from, count) if !model.is_empty() => {
                    let gone: Vec<_> = model.iter().skip(from % model.len()).take(count).map(|(&index, &tag)| (tag, index)).collect();
                    table.remove_all(&gone);
                    model.retain(|index, _| gone.iter().all(|(_, other)| other != index));
                }
                TableStep::Shrink => table.shrink(),
                TableStep::Remove(_) | TableStep::RemoveAll(..) => {}
            }
            table.check();
            prop_assert_eq!((table.len(), table.is_empty()), (model.len(), model.is_empty()));
            for &tag in model.values() {
                let mut found: Vec<_> = table.candidates(tag).collect();
                found.sort_unstable();
                let expected: Vec<_> = model.iter().filter(|(_, &other)| other == tag).map(|(&index, _)| index).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    /// After every step, an `Order` has the same entries as a queue from which any item can be removed.
    #[test]
    fn an_order_is_a_queue(steps in prop::collection::vec(order_step(), 1..200)) {
        let mut order: Order = Order::new();
        let (mut model, mut free, mut next) = (VecDeque::new(), Vec::new(), 0);
        for step in steps {
            match step {
                OrderStep::Add => {
                    let index = free.pop().unwrap_or_else(|| { next += 3; next });
                    order.add(index);
                    model.push_back(index);
                }
                OrderStep::Use(which) if !model.is_empty() => {
                    let index = model.remove(which % model.len()).expect("it has so many");
                    order.use_now(index);
                    model.push_back(index);
                }
                OrderStep::Remove(which) if !model.is_empty() => {
                    let index = model.remove(which % model.len()).expect("it has so many");
                    order.remove(index);
                    free.push(index);
                }
                OrderStep::Use(_) | OrderStep::Remove(_) => {}
            }
            order.check();
            prop_assert_eq!(order.oldest(), model.front().copied());
            prop_assert_eq!(order.iter().collect::<VecDeque<_>>(), model.clone());
        }
    }

    /// A ticket counts as overtaken if and only if one of its tags, or all tags (`note_all`), were written after the
    /// ticket was made.
    #[test]
    fn a_watch_sees_every_write(steps in prop::collection::vec(watch_step(), 1..100)) {
        let mut watches = Watches::default();
        let mut open = Vec::new();
        for (now, step) in steps.into_iter().enumerate() {
            match step {
                WatchStep::Begin(tags) => open.push((watches.begin(tags.clone()), tags, false)),
                WatchStep::End(which) if !open.is_empty() => {
                    let (ticket, ..) = open.swap_remove(which % open.len());
                    watches.end(&ticket);
                }
                WatchStep::End(_) => {}
                WatchStep::Note(tag) => {
                    watches.note(tag);
                    for (_, tags, is_written) in &mut open {
                        *is_written |= tags.contains(&tag);
                    }
                }
                WatchStep::NoteAll => {
                    watches.note_all();
                    for (_, _, is_written) in &mut open {
                        *is_written = true;
                    }
                }
            }
            for (ticket, _, is_written) in &open {
                prop_assert_eq!(watches.is_written(ticket), *is_written, "at step {}", now);
            }
        }
    }

    /// A `FreeList` behaves like a stack that refuses items beyond its limit.
    #[test]
    fn a_free_list_is_a_bounded_stack(limit in 0usize..5, steps in prop::collection::vec(prop::option::of(any::<u8>()), 1..50)) {
        let mut list = FreeList::new(limit);
        let mut model = Vec::new();
        for step in steps {
            match step {
                Some(dead) if model.len() < limit => {
                    prop_assert_eq!(list.keep(dead), Ok(()));
                    model.push(dead);
                }
                Some(dead) => prop_assert_eq!(list.keep(dead), Err(dead)),
                None => prop_assert_eq!(list.take(), model.pop()),
            }
        }
    }
}

#[test]
fn a_crowd_that_has_left_leaves_a_small_table() {
    let mut table: Table = Table::new();
    let small = table.bytes();
    let tags: HashMap<u32, u32> = (0..10_000).map(|index| (index, tag_of(index as isize))).collect();
    for (&index, &tag) in &tags {
        table.insert(tag, index);
    }
    let full = table.bytes();
    for (&index, &tag) in &tags {
        table.remove(tag, index);
    }
    table.shrink();
    table.check();
    assert!(table.bytes() == small && full > 10_000 * 8, "{} of {full} bytes are still held", table.bytes());
}

#[test]
#[should_panic(expected = "what is removed is in the table")]
fn what_is_not_there_cannot_be_removed() {
    let mut table: Table = Table::new();
    table.insert(1, 1);
    table.remove(1, 2);
}

#[test]
fn of_several_traces_each_gets_what_is_asked_for_while_it_lasts() {
    let mut watches = Watches::default();
    let first = watches.begin_trace();
    watches.asked(1);
    let second = watches.begin_trace();
    watches.asked(2);
    assert_eq!(watches.end_trace(first), [1, 2]);
    watches.asked(3);
    assert_eq!(watches.end_trace(second), [2, 3]);
}
