//! The text of a trace as events.
//!
//! A line is `COMMAND-PID [CPU] FLAGS TIMESTAMP: EVENT: FIELDS`, the command padded to sixteen bytes, of which it has
//! at most fifteen. A command may hold any character; no line makes this parser panic (`random_bytes_and_damaged_lines_never_panic`).

/// A thread as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The thread's number; 0 is a processor without work.
    pub id: u32,
    /// The thread's name, at most fifteen bytes.
    pub name: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The processor went from one thread to another.
    Switch {
        /// The thread that had it.
        from: Thread,
        /// Whether that thread would have gone on: it was pre-empted, and did not block.
        runnable: bool,
        /// The thread that has it now.
        to: Thread,
    },
    /// An interrupt or its deferred work began; the name says which.
    Enter(String),
    /// It ended.
    Leave(String),
    /// A page fault of the thread, in the kernel or in user mode.
    PageFault {
        /// Whether the thread was in the kernel.
        in_kernel: bool,
    },
    /// Address translations were flushed; the reason.
    Flush(String),
    /// A kernel worker began this function.
    Work(String),
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When: a stamp.
    pub at: u64,
    /// The processor.
    pub cpu: u32,
    /// Number of the thread that had the processor.
    pub thread: u32,
    /// What happened.
    pub kind: Kind,
}

/// The events of a trace, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The events.
    pub events: Vec<Event>,
    /// Number of events that the kernel had no room for.
    pub lost: u64,
    /// Lines that were no event: neither known nor known to say nothing of time.
    pub unread: u64,
}

/// Events that say nothing of time on the processor.
const SILENT: [&str; 5] = [
    "softirq_raise",
    "workqueue_queue_work",
    "workqueue_activate_work",
    "workqueue_execute_end",
    "tasklet_raise",
];

/// Reads the text of a trace.
pub fn parse(text: &str) -> Trace {
    let mut trace = Trace::default();
    for line in text.lines() {
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        if let Some(lost) = lost(line) {
            trace.lost = trace.lost.saturating_add(lost);
            continue;
        }
        match event(line) {
            Some(Ok(event)) => trace.events.push(event),
            Some(Err(Silent)) => {}
            None => trace.unread += 1,
        }
    }
    // The kernel writes events of one processor in order; damaged text may not have it.
    if !trace.events.is_sorted_by_key(|event| event.at) {
        trace.events.sort_by_key(|event| event.at);
    }
    trace
}

/// An event that says nothing of time.
struct Silent;

/// `CPU:1 [LOST 12 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.trim().strip_prefix("CPU:")?.split_once("[LOST ")?;
    rest.strip_suffix(" EVENTS]")?.parse().ok()
}

/// Reads one line; `None` if it is damaged or unknown.
fn event(line: &str) -> Option<Result<Event, Silent>> {
    let (thread, rest) = head(line)?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    let cpu = cpu.parse().ok()?;
    let (_flags, rest) = rest.trim_start().split_once(' ')?;
    let (at, rest) = rest.trim_start().split_once(": ")?;
    let at = at.parse().ok()?;
    let (name, fields) = rest.split_once(':')?;
    if SILENT.contains(&name) {
        return Some(Err(Silent));
    }
    Some(Ok(Event { at, cpu, thread, kind: kind(name, fields.trim_start())? }))
}

/// The number of the thread, and what stands behind it. The command is sixteen bytes wide, with blanks before it.
fn head(line: &str) -> Option<(u32, &str)> {
    let dash = match line.as_bytes().get(16) {
        Some(b'-') => 16,
        // Commands that are not text are printed otherwise.
        _ => line
            .find(" [")?
            .min(line.len())
            .checked_sub(1)
            .and_then(|end| line.get(..=end)?.rfind('-'))?,
    };
    let (id, rest) = line.get(dash + 1..)?.split_once(' ')?;
    Some((id.parse().ok()?, rest))
}

fn kind(name: &str, fields: &str) -> Option<Kind> {
    Some(match name {
        "sched_switch" => switch(fields)?,
        "irq_handler_entry" => Kind::Enter(device(fields)?),
        "irq_handler_exit" => Kind::Leave(device(fields)?),
        "softirq_entry" => Kind::Enter(softirq(fields)?),
        "softirq_exit" => Kind::Leave(softirq(fields)?),
        "tasklet_entry" => Kind::Enter("tasklet".into()),
        "tasklet_exit" => Kind::Leave("tasklet".into()),
        "page_fault_user" => Kind::PageFault { in_kernel: false },
        "page_fault_kernel" => Kind::PageFault { in_kernel: true },
        "tlb_flush" => Kind::Flush(reason(fields)?),
        "workqueue_execute_start" => Kind::Work(fields.rsplit_once("function ")?.1.trim().into()),
        _ => vector(name, fields)?,
    })
}

/// Interrupts of the processor itself: `local_timer_entry: vector=236`.
fn vector(name: &str, fields: &str) -> Option<Kind> {
    fields.strip_prefix("vector=")?;
    let text = |name: &str| format!("interrupt {name}");
    match (name.strip_suffix("_entry"), name.strip_suffix("_exit")) {
        (Some(name), _) => Some(Kind::Enter(text(name))),
        (_, Some(name)) => Some(Kind::Leave(text(name))),
        _ => None,
    }
}

/// `irq=36 name=virtio1-req.0`, `irq=36 ret=handled`.
fn device(fields: &str) -> Option<String> {
    let (number, rest) = fields.strip_prefix("irq=")?.split_once(' ')?;
    number.parse::<u32>().ok()?;
    Some(match rest.strip_prefix("name=") {
        Some(name) => format!("interrupt {number} {}", name.trim()),
        None => format!("interrupt {number}"),
    })
}

/// `vec=1 [action=TIMER]`.
fn softirq(fields: &str) -> Option<String> {
    let (_, action) = fields.split_once("[action=")?;
    Some(format!("softirq {}", action.trim_end().strip_suffix(']')?))
}

/// `pages:1 reason:local MM shootdown (3)`.
fn reason(fields: &str) -> Option<String> {
    let (_, reason) = fields.split_once("reason:")?;
    Some(reason.rsplit_once(" (").map_or(reason, |(text, _)| text).trim().to_owned())
}

/// `prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=120`. Names may hold any of
/// these words, so the fields are looked for from where names cannot be.
fn switch(fields: &str) -> Option<Kind> {
    let rest = fields.strip_prefix("prev_comm=")?;
    let (before, after) = rest.split_once(" ==> next_comm=")?;
    let (from, rest) = before.rsplit_once(" prev_pid=")?;
    let (from_id, state) = (rest.split(' ').next()?, rest.rsplit_once("prev_state=")?.1);
    let (to, rest) = after.rsplit_once(" next_pid=")?;
    let to_id = rest.split(' ').next()?;
    Some(Kind::Switch {
        from: Thread { id: from_id.parse().ok()?, name: from.to_owned() },
        runnable: state.starts_with('R'),
        to: Thread { id: to_id.parse().ok()?, name: to.to_owned() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    const RECORDED: &str = include_str!("../../tests/recorded/trace.txt");

    #[test]
    fn every_line_of_a_recorded_trace_is_read() {
        let trace = parse(RECORDED);
        assert_eq!((trace.unread, trace.lost), (0, 0));
        assert_eq!(trace.events.len(), 202);
        assert!(trace.events.iter().all(|event| event.cpu == 1));
        let has = |kind: &Kind| trace.events.iter().any(|event| event.kind == *kind);
        assert!(has(&Kind::Enter("interrupt local_timer".into())));
        assert!(has(&Kind::Enter("interrupt 36 virtio1-req.0".into())));
        assert!(has(&Kind::Leave("interrupt 36".into())));
        assert!(has(&Kind::Enter("softirq TIMER".into())));
        assert!(has(&Kind::Flush("local MM shootdown".into())));
        assert!(has(&Kind::Work("delayed_vfree_work".into())));
        assert!(has(&Kind::PageFault { in_kernel: true }));
        assert!(has(&Kind::Switch {
            from: Thread { id: 4778, name: "bash".into() },
            runnable: true,
            to: Thread { id: 8137, name: "kworker/1:0".into() },
        }));
    }

    #[test]
    fn names_that_look_like_fields_are_names() {
        let line = " a [009] b-x y-4     [001] d..2. 12: sched_switch: prev_comm=a [009] b-x y prev_pid=4 \
                    prev_prio=1 prev_state=S ==> next_comm=c next_pid=9 d next_pid=7 next_prio=1";
        // Fifteen bytes and a blank, the dash at byte 16.
        let line =
            format!("{:>16}{}", "a [009] b-x y-4", &line[16..].replacen("     [", "-4 [", 1));
        let trace = parse(&line);
        assert_eq!(trace.unread, 0, "{line}");
        let Kind::Switch { from, runnable, to } = &trace.events[0].kind else {
            panic!("{trace:?}")
        };
        assert_eq!((from.name.as_str(), from.id, *runnable), ("a [009] b-x y", 4, false));
        assert_eq!((to.name.as_str(), to.id), ("c next_pid=9 d", 7));
    }

    #[test]
    fn lost_events_are_counted_and_unknown_lines_too() {
        let trace =
            parse("CPU:1 [LOST 12 EVENTS]\nsomething else\n# comment\n\nCPU:1 [LOST 3 EVENTS]\n");
        assert_eq!((trace.lost, trace.unread, trace.events.len()), (15, 1, 0));
    }

    #[test]
    fn random_bytes_and_damaged_lines_never_panic() {
        let mut rng = Rng::new(11);
        let recorded = RECORDED.as_bytes();
        for _ in 0..400 {
            let length = rng.below(300) as usize;
            let noise: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
            parse(&String::from_utf8_lossy(&noise));
            let start = rng.below((recorded.len() - 400) as u64) as usize;
            let mut damaged = recorded[start..start + 400].to_vec();
            for _ in 0..1 + rng.below(8) {
                let at = rng.below(400) as usize;
                match rng.below(3) {
                    0 => damaged[at] = rng.next_u64() as u8,
                    1 => damaged[at] = b" [-:=]>\n"[rng.below(8) as usize],
                    _ => damaged.truncate(at.max(1)),
                }
                if damaged.len() < 400 {
                    break;
                }
            }
            let trace = parse(&String::from_utf8_lossy(&damaged));
            assert!(trace.events.is_sorted_by_key(|event| event.at));
        }
    }
}
