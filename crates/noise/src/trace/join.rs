//! Outliers joined with the events between their two stamps.
//!
//! Within an outlier time is counted by what had the processor: another thread, an interrupt, deferred interrupt work.
//! Whatever had most of it is the cause. A page fault has no end in the trace, so it counts as all time that nothing else
//! had. An outlier without any event is time that the kernel did not see: below it, so a hypervisor's or the hardware's.
//! That one is inferred from absence. An outlier with events of which most time lies outside of them, beyond
//! what entering the kernel may take, is called so as well, with what it lies around.
//!
//! A tuple may be long by itself. Who knows how long each tuple takes at least, from other runs of the same tuples, hands
//! that in: an outlier that the kernel did not see and of which at least half is the tuple's own time is its own work.

use std::collections::HashMap;

use super::parse::{Event, Kind, Trace};
use crate::attribution::Attribution;
use crate::series::Series;

/// The name of time that the kernel did not see.
pub const BELOW: &str = "below the kernel";

/// The name of time that a tuple takes in every run.
pub const OWN: &str = "the tuple's own work";

/// What to join with.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<'a> {
    /// Gaps above this are outliers, ticks.
    pub outlier_ticks: u64,
    /// Time that entering and leaving the kernel may take around events, ticks. A guest's interrupt costs 11 to 14 µs
    /// before its handler begins.
    pub entry_ticks: u64,
    /// The least that each tuple took in any run, ticks; empty if that is not known.
    pub own_ticks: &'a [u64],
}

/// The outliers of a thread's series by cause. `stamps`: the series' own, of the thread `thread` on the processor `cpu`,
/// where the thread was pinned.
pub fn attribute(
    series: &Series,
    stamps: &[u64],
    trace: &Trace,
    cpu: u32,
    thread: u32,
    bounds: Bounds<'_>,
) -> Attribution {
    let mut found = Attribution::new("the kernel's trace", bounds.outlier_ticks);
    let p50 = series.summary(bounds.outlier_ticks).map_or(0, |summary| summary.p50);
    let events: Vec<&Event> = trace.events.iter().filter(|event| event.cpu == cpu).collect();
    // The kernel overwrites the oldest events first.
    let known_from =
        if trace.lost > 0 { events.first().map_or(u64::MAX, |event| event.at) } else { 0 };
    let outliers = series.ticks().iter().enumerate();
    for (tuple, &gap) in outliers.filter(|(_, gap)| **gap > bounds.outlier_ticks) {
        let (start, end) = (stamps[tuple], stamps[tuple + 1]);
        let cause = (start >= known_from).then(|| {
            let first = events.partition_point(|event| event.at < start);
            let last = events.partition_point(|event| event.at <= end);
            let name = cause(&events[first..last], start, end, thread, bounds.entry_ticks);
            if name.starts_with(BELOW) && is_own(bounds.own_ticks, tuple, gap) {
                OWN.into()
            } else {
                name
            }
        });
        found.add(cause, gap, gap.saturating_sub(p50), end);
    }
    found
}

/// Whether at least half of a tuple's gap is what the tuple takes in every run.
pub(crate) fn is_own(own_ticks: &[u64], tuple: usize, gap: u64) -> bool {
    own_ticks.get(tuple).is_some_and(|&own| own >= gap.div_ceil(2))
}

/// Time by what had the processor.
#[derive(Default)]
struct Account {
    by_name: HashMap<String, u64>,
    faults: [u64; 2],
    flush: Option<String>,
}

impl Account {
    fn add(&mut self, name: String, ticks: u64) {
        *self.by_name.entry(name).or_default() += ticks;
    }
}

/// Who has the processor in place of the measured thread.
enum Holder {
    /// Nobody: the thread runs.
    Thread,
    /// An interrupt within the thread; the outermost, with the number of those within it.
    Interrupt { name: String, since: u64, within: u32 },
    /// Another thread. `blocked`: the measured thread gave its processor away.
    Other { name: String, since: u64, blocked: bool },
}

/// The cause of an outlier from the events within it.
fn cause(events: &[&Event], start: u64, end: u64, thread: u32, entry_ticks: u64) -> String {
    if events.is_empty() {
        return BELOW.into();
    }
    let mut account = Account::default();
    let mut holder = Holder::Thread;
    for event in events {
        holder = step(holder, event, start, thread, &mut account);
    }
    settle(holder, end, &mut account);
    let seen: u64 = account.by_name.values().sum();
    let rest = (end - start).saturating_sub(seen);
    let most =
        account.by_name.iter().max_by_key(|(name, ticks)| (**ticks, std::cmp::Reverse(*name)));
    let most = most.map(|(name, ticks)| (name.clone(), *ticks));
    let [user, kernel] = account.faults;
    match most {
        Some((name, ticks)) if user + kernel == 0 || ticks >= rest => {
            if rest > seen && rest > entry_ticks { format!("{BELOW}, around {name}") } else { name }
        }
        _ if user > 0 => "page fault".into(),
        _ if kernel > 0 => "page fault in a system call".into(),
        _ => match account.flush {
            Some(reason) => format!("flush of translations: {reason}"),
            None => format!("{BELOW}, around work of the kernel"),
        },
    }
}

/// The holder after an event; time that has ended goes to the account.
fn step(holder: Holder, event: &Event, start: u64, thread: u32, account: &mut Account) -> Holder {
    let at = event.at;
    match (holder, &event.kind) {
        (Holder::Thread, Kind::Switch { from, runnable, to }) if from.id == thread => {
            Holder::Other { name: to.name.clone(), since: at, blocked: !runnable }
        }
        (Holder::Other { name, since, blocked }, Kind::Switch { to, .. }) => {
            away(account, name, at - since, blocked);
            if to.id == thread {
                Holder::Thread
            } else {
                Holder::Other { name: to.name.clone(), since: at, blocked }
            }
        }
        (Holder::Other { name, since, blocked }, Kind::Work(function)) => {
            let plain = name.split(' ').next().unwrap_or_default().to_owned();
            Holder::Other { name: format!("{plain} ({function})"), since, blocked }
        }
        (Holder::Thread, Kind::Switch { to, .. }) if to.id == thread => {
            // The thread came back, and the trace had not seen it go.
            away(account, "a thread before the trace".into(), at - start, false);
            Holder::Thread
        }
        (Holder::Thread, Kind::Enter(name)) => {
            Holder::Interrupt { name: name.clone(), since: at, within: 0 }
        }
        (Holder::Interrupt { name, since, within }, Kind::Enter(_)) => {
            Holder::Interrupt { name, since, within: within + 1 }
        }
        (Holder::Interrupt { name, since, within: 0 }, Kind::Leave(_)) => {
            account.add(name, at - since);
            Holder::Thread
        }
        (Holder::Interrupt { name, since, within }, Kind::Leave(_)) => {
            Holder::Interrupt { name, since, within: within - 1 }
        }
        (Holder::Interrupt { name, since, .. }, Kind::Switch { runnable, to, .. }) => {
            account.add(name, at - since);
            Holder::Other { name: to.name.clone(), since: at, blocked: !runnable }
        }
        (Holder::Interrupt { name, since, within }, Kind::Flush(_)) if !name.ends_with("flush") => {
            Holder::Interrupt { name: format!("{name} for a flush"), since, within }
        }
        (holder, Kind::PageFault { in_kernel }) => {
            if matches!(holder, Holder::Thread) {
                account.faults[usize::from(*in_kernel)] += 1;
            }
            holder
        }
        (holder, Kind::Flush(reason)) => {
            if matches!(holder, Holder::Thread) {
                account.flush.get_or_insert_with(|| reason.clone());
            }
            holder
        }
        (holder, _) => holder,
    }
}

/// Time that another thread had. A thread without a number is the processor without work.
fn away(account: &mut Account, name: String, ticks: u64, blocked: bool) {
    let name = if blocked { "blocked".to_owned() } else { format!("pre-empted by {name}") };
    account.add(name, ticks);
}

/// What still holds the processor at the end of the outlier; its event of leaving lies behind the stamp.
fn settle(holder: Holder, end: u64, account: &mut Account) {
    match holder {
        Holder::Thread => {}
        Holder::Interrupt { name, since, .. } => account.add(name, end - since),
        Holder::Other { name, since, blocked } => away(account, name, end - since, blocked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;
    use halcyon_base::rng::Rng;

    const BOUNDS: Bounds<'static> =
        Bounds { outlier_ticks: 1_000, entry_ticks: 5_000, own_ticks: &[] };

    /// A trace of thread 7 on processor 1.
    fn trace(lines: &[(u64, &str)]) -> Trace {
        let text: String = lines
            .iter()
            .map(|(at, what)| format!("{:>16}-7       [001] d.h.. {at}: {what}\n", "worker"))
            .collect();
        let trace = parse(&text);
        assert_eq!(trace.unread, 0, "{text}");
        trace
    }

    /// The causes of one gap of 10,000 ticks, from 100,000 on, among short ones.
    fn named(lines: &[(u64, &str)]) -> String {
        let stamps: Vec<u64> =
            (0..=20).map(|at| 90_000 + at * 500 + if at > 20 { 9_500 } else { 0 }).collect();
        let mut stamps = stamps;
        stamps.push(110_000);
        let series = Series::from_ticks(stamps.windows(2).map(|pair| pair[1] - pair[0]).collect());
        let found = attribute(&series, &stamps, &trace(lines), 1, 7, BOUNDS);
        assert_eq!(found.outliers(), 1, "{found:?}");
        let (name, tally) = found.by_excess()[0];
        assert_eq!((tally.total_ticks, tally.worst_ticks, tally.last_at), (9_500, 10_000, 110_000));
        name.to_owned()
    }

    const OUT: &str = "sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=hog next_pid=9 next_prio=120";
    const ON: &str = "sched_switch: prev_comm=hog prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=kworker/1:0 next_pid=5 next_prio=120";
    const BACK: &str = "sched_switch: prev_comm=kworker/1:0 prev_pid=5 prev_prio=120 prev_state=I ==> next_comm=worker next_pid=7 next_prio=120";

    #[test]
    fn a_thread_that_had_the_processor_is_named() {
        assert_eq!(named(&[(100_500, OUT), (108_000, ON), (109_500, BACK)]), "pre-empted by hog");
        let work = "workqueue_execute_start: work struct 00001: function vfree";
        assert_eq!(
            named(&[(100_500, OUT), (101_000, ON), (101_100, work), (109_500, BACK)]),
            "pre-empted by kworker/1:0 (vfree)"
        );
        let slept = OUT.replace("prev_state=R", "prev_state=S");
        assert_eq!(named(&[(100_500, &slept), (108_000, ON), (109_500, BACK)]), "blocked");
    }

    #[test]
    fn interrupts_and_deferred_work_are_named_by_their_time() {
        let timer = |at| {
            [(at, "local_timer_entry: vector=236"), (at + 3_000, "local_timer_exit: vector=236")]
        };
        let softirq = |at, long| {
            [
                (at, "softirq_entry: vec=9 [action=RCU]"),
                (at + long, "softirq_exit: vec=9 [action=RCU]"),
            ]
        };
        assert_eq!(
            named(&[timer(101_000), softirq(104_100, 2_000)].concat()),
            "interrupt local_timer"
        );
        assert_eq!(named(&[timer(101_000), softirq(104_100, 4_000)].concat()), "softirq RCU");
        // An interrupt within deferred work belongs to that work.
        let nested =
            [(102_000, "local_timer_entry: vector=236"), (104_000, "local_timer_exit: vector=236")];
        let within =
            [&softirq(101_000, 8_000)[..1], &nested, &softirq(101_000, 8_000)[1..]].concat();
        assert_eq!(named(&within), "softirq RCU");
        let flush = [
            (101_000, "call_function_single_entry: vector=251"),
            (102_000, "tlb_flush: pages:1 reason:remote shootdown (1)"),
            (108_000, "call_function_single_exit: vector=251"),
        ];
        assert_eq!(named(&flush), "interrupt call_function_single for a flush");
    }

    #[test]
    fn a_short_event_does_not_explain_a_long_gap() {
        let short =
            [(101_000, "local_timer_entry: vector=236"), (101_100, "local_timer_exit: vector=236")];
        assert_eq!(named(&short), "below the kernel, around interrupt local_timer");
        assert_eq!(named(&[]), BELOW);
        // Events before and behind the gap are none of it.
        assert_eq!(named(&[(99_000, OUT), (99_500, ON), (99_900, BACK), (110_500, OUT)]), BELOW);
    }

    #[test]
    fn a_fault_is_all_time_that_nothing_else_had() {
        let fault = (101_000, "page_fault_user: address=0x1 ip=0x2 error_code=0x7");
        let timer =
            [(102_000, "local_timer_entry: vector=236"), (103_000, "local_timer_exit: vector=236")];
        assert_eq!(named(&[&[fault][..], &timer].concat()), "page fault");
        assert_eq!(
            named(&[fault, (103_000, OUT), (103_500, ON), (109_900, BACK)]),
            "pre-empted by kworker/1:0"
        );
        let call = (101_000, "page_fault_kernel: address=0x1 ip=0x2 error_code=0x7");
        assert_eq!(named(&[call]), "page fault in a system call");
        let flush = (101_000, "tlb_flush: pages:1 reason:local MM shootdown (3)");
        assert_eq!(named(&[flush]), "flush of translations: local MM shootdown");
    }

    #[test]
    fn a_tuple_that_is_long_in_every_run_is_its_own_cause_unless_the_kernel_saw_another() {
        let stamps = [0, 10, 2_010, 4_010, 6_010];
        let series = Series::from_ticks(vec![10, 2_000, 2_000, 2_000]);
        let timer =
            [(4_100, "local_timer_entry: vector=236"), (5_900, "local_timer_exit: vector=236")];
        let bounds = Bounds { own_ticks: &[10, 1_000, 999, 1_900], ..BOUNDS };
        let found = attribute(&series, &stamps, &trace(&timer), 1, 7, bounds);
        let names: Vec<&str> = found.causes.keys().map(String::as_str).collect();
        assert_eq!(names, [BELOW, "interrupt local_timer", OWN]);
    }

    #[test]
    fn gaps_before_the_oldest_event_that_was_kept_are_unknown() {
        let stamps = [0, 10, 20, 5_000, 5_010, 9_000];
        let series = Series::from_ticks(vec![10, 10, 4_980, 10, 3_990]);
        let mut trace = trace(&[
            (5_005, "local_timer_entry: vector=236"),
            (5_008, "local_timer_exit: vector=236"),
        ]);
        trace.lost = 1;
        let found = attribute(&series, &stamps, &trace, 1, 7, BOUNDS);
        assert_eq!((found.unknown.count, found.causes[BELOW].count), (1, 1));
        assert!((found.named_share() - 3_980.0 / (3_980.0 + 4_970.0)).abs() < 1e-9);
        trace.lost = 0;
        assert_eq!(attribute(&series, &stamps, &trace, 1, 7, BOUNDS).named_share(), 1.0);
    }

    #[test]
    fn any_order_of_events_gives_a_cause_for_every_outlier() {
        let all = [
            OUT,
            ON,
            BACK,
            "local_timer_entry: vector=236",
            "local_timer_exit: vector=236",
            "softirq_exit: vec=9 [action=RCU]",
            "irq_handler_entry: irq=3 name=disk",
            "irq_handler_exit: irq=3 ret=handled",
            "page_fault_user: address=0x1 ip=0x2 error_code=0x7",
            "tlb_flush: pages:1 reason:x (3)",
        ];
        let mut rng = Rng::new(5);
        for _ in 0..300 {
            let mut at = 0;
            let lines: Vec<(u64, &str)> = (0..rng.below(40))
                .map(|_| {
                    at += rng.below(500);
                    (at, all[rng.below(all.len() as u64) as usize])
                })
                .collect();
            let trace = trace(&lines);
            let mut stamps = vec![0];
            (0..20).for_each(|_| stamps.push(stamps[stamps.len() - 1] + rng.below(2_000)));
            let series =
                Series::from_ticks(stamps.windows(2).map(|pair| pair[1] - pair[0]).collect());
            let found = attribute(&series, &stamps, &trace, 1, 7, BOUNDS);
            let outliers = series.ticks().iter().filter(|gap| **gap > 1_000).count();
            assert_eq!((found.outliers(), found.unknown.count), (outliers as u64, 0));
        }
    }
}
