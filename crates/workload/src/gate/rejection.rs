//! Why a statement does not run.

use std::fmt;
use std::time::Duration;

use crate::limits::ClassId;

/// A statement that was not admitted, told so that a program can decide when to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The class whose limit it is.
    pub class: ClassId,
    /// The class's name.
    pub class_name: String,
    /// The reason, which knows its SQLSTATE.
    pub reason: Reason,
    /// What the signal showed, in its unit.
    pub value: u64,
    /// From which value on statements are not admitted.
    pub limit: u64,
    /// After which time another attempt is worthwhile; zero if none is. A client adds jitter.
    pub retry_after: Duration,
}

/// Reasons for not running a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The statement would wait too long for its class's latency target (L1).
    Overload,
    /// The wait in the queue left too little of the latency target.
    Deadline,
    /// ADMISSION CONTROL REJECT CPU THRESHOLD.
    CpuThreshold,
    /// ADMISSION CONTROL REJECT MEMORY THRESHOLD.
    MemoryThreshold,
    /// QUEUE LIMIT.
    QueueFull,
    /// QUEUE TIMEOUT.
    QueueTimeout,
    /// CONNECTION LIMIT.
    ConnectionLimit,
    /// The brake is on.
    Brake,
}

impl Reason {
    /// The SQLSTATE: of class 53 or 57, so that handlers which know classes alone do the right thing.
    pub const fn sqlstate(self) -> &'static str {
        match self {
            Reason::Overload
            | Reason::Deadline
            | Reason::CpuThreshold
            | Reason::MemoryThreshold => "53000",
            Reason::QueueFull => "53W01",
            Reason::QueueTimeout => "53W02",
            Reason::ConnectionLimit => "53300",
            Reason::Brake => "57014",
        }
    }

    /// What was measured, with its unit.
    pub const fn signal(self) -> &'static str {
        match self {
            Reason::Overload => "expected wait (ms)",
            Reason::Deadline | Reason::QueueTimeout => "wait (ms)",
            Reason::CpuThreshold => "processor time in use (%)",
            Reason::MemoryThreshold => "memory in use (%)",
            Reason::QueueFull => "statements in the queue",
            Reason::ConnectionLimit => "connections",
            Reason::Brake => "brake",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Overload => "the class is overloaded",
            Reason::Deadline => "the class is overloaded and the statement's time is over",
            Reason::CpuThreshold => "too much processor time is in use",
            Reason::MemoryThreshold => "too much memory is in use",
            Reason::QueueFull => "the class's queue is full",
            Reason::QueueTimeout => "the statement has waited for the class's queue timeout",
            Reason::ConnectionLimit => "the class has no more connections",
            Reason::Brake => "the brake is on",
        })
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "workload class {:?}: {}", self.class_name, self.reason)?;
        match self.reason {
            Reason::Brake => Ok(()),
            reason => write!(f, "; {}: {}, limit: {}", reason.signal(), self.value, self.limit),
        }
    }
}
