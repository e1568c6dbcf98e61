//! The works of the benchmark of peers, for the timers of tokio: `peers sleep|queue WORK N` prints one line of JSON.

mod process;
mod queue;
mod sleep;
mod works;

use std::env::args;

fn main() {
    let [_, kind, work, n] = args().collect::<Vec<_>>().try_into().expect("sleep|queue WORK N");
    let n = n.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    // A poll counts against the budget of its task, and one that is over it would register no timer.
    let found = runtime.block_on(tokio::task::unconstrained(async {
        match (kind.as_str(), work.as_str()) {
            ("sleep", "pending") => works::pending(sleep::Sleeps::new(n + 1).await, n).await,
            ("sleep", "fire") => sleep::fire(n).await,
            ("sleep", "lateness") => sleep::lateness(n).await,
            ("queue", "pending") => works::pending(queue::Queue::new(n + 1), n).await,
            ("queue", "fire") => queue::fire(n).await,
            ("queue", "lateness") => queue::lateness(n).await,
            _ => panic!("sleep|queue pending|fire|lateness"),
        }
    }));
    let line: Vec<_> = found.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    println!("{{{}}}", line.join(", "));
}
