//! Which statements become spans: the samplers of OpenTelemetry's specification (Trace SDK, "Built-in samplers").

use crate::context::{Context, TraceId};

/// A decision of each statement, before it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// What becomes of traces that begin here.
    root: Root,
    /// Whether a statement of a client's trace follows the client's decision.
    parent_based: bool,
}

/// The decision on traces that begin here.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Root {
    Always,
    Never,
    /// Traces whose number's last 56 bits are less than this: of each trace all programs decide the same.
    Below(u64),
}

/// The numbers that 56 random bits may be.
const NUMBERS: u64 = 1 << 56;

impl Default for Sampler {
    /// `parentbased_always_on`.
    fn default() -> Self {
        Sampler { root: Root::Always, parent_based: true }
    }
}

impl Sampler {
    /// The sampler of a name, as in `OTEL_TRACES_SAMPLER`; `argument`: the part of all traces, 1 by default, for the
    /// two that take one.
    ///
    /// Errors: what is wrong with name or argument.
    pub fn named(name: &str, argument: Option<&str>) -> Result<Sampler, String> {
        let (root, parent_based) = match name.strip_prefix("parentbased_") {
            Some(root) => (root, true),
            None => (name, false),
        };
        let root = match root {
            "always_on" => Root::Always,
            "always_off" => Root::Never,
            "traceidratio" => Root::Below(below(argument.unwrap_or("1"))?),
            _ => {
                return Err(format!(
                    "no sampler \"{name}\": there are always_on, always_off, traceidratio, and each with \
                     parentbased_ in front"
                ));
            }
        };
        Ok(Sampler { root, parent_based })
    }

    /// Whether a statement of a trace is recorded. `parent`: the client's span, if the client has told.
    pub fn takes(&self, trace: TraceId, parent: Option<&Context>) -> bool {
        match (parent, self.root) {
            (Some(parent), _) if self.parent_based => parent.is_sampled,
            (_, Root::Always) => true,
            (_, Root::Never) => false,
            (_, Root::Below(bound)) => {
                let mut last = [0; 8];
                last[1..].copy_from_slice(&trace.0[9..]);
                u64::from_be_bytes(last) < bound
            }
        }
    }
}

/// The bound for a part of all traces.
fn below(part: &str) -> Result<u64, String> {
    match part.trim().parse::<f64>() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok((part * NUMBERS as f64) as u64),
        _ => Err(format!("\"{part}\" is no part of all traces: from 0 to 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_part_of_all_traces_is_taken() {
        let sampler = Sampler::named("traceidratio", Some("0.25")).expect("a ratio");
        let taken = (0..20_000).filter(|_| sampler.takes(TraceId::random(), None)).count();
        assert!((4_600..5_400).contains(&taken), "{taken} of 20000");
        let trace = TraceId::random();
        assert_eq!(sampler.takes(trace, None), sampler.takes(trace, None));
        for (part, all) in [("0", false), ("1", true)] {
            let sampler = Sampler::named("traceidratio", Some(part)).expect("a bound");
            assert!((0..100).all(|_| sampler.takes(TraceId::random(), None) == all), "{part}");
        }
    }

    #[test]
    fn a_client_decides_for_its_statements() {
        let yes = Context::parse(SAMPLED).expect("a context");
        let no = Context { is_sampled: false, ..yes.clone() };
        let takes = |name: &str, parent| {
            Sampler::named(name, None).expect("a sampler").takes(TraceId::random(), parent)
        };
        for (name, sampled, unsampled, root) in [
            ("parentbased_always_on", true, false, true),
            ("parentbased_always_off", true, false, false),
            ("always_on", true, true, true),
            ("always_off", false, false, false),
        ] {
            let found = [takes(name, Some(&yes)), takes(name, Some(&no)), takes(name, None)];
            assert_eq!(found, [sampled, unsampled, root], "{name}");
        }
    }

    #[test]
    fn others_are_refused_with_what_there_is() {
        assert!(Sampler::named("xray", None).unwrap_err().contains("parentbased_"));
        for part in ["2", "-1", "NaN", "much", ""] {
            assert!(Sampler::named("traceidratio", Some(part)).is_err(), "{part}");
        }
    }
}
