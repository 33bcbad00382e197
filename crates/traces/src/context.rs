//! The context of a trace as it travels: W3C Trace Context, level 2 (`traceparent`, `tracestate`).

use std::fmt;
use std::sync::OnceLock;

use ring::rand::{SecureRandom as _, SystemRandom};

/// Number of a trace: 16 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// Number of a span within its trace: 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// The longest `tracestate` that is passed on: what W3C asks every participant to keep.
const STATE_BYTES_MAX: usize = 512;

/// A span of another program, or of this one, and its trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace.
    pub trace: TraceId,
    /// The span within the trace.
    pub span: SpanId,
    /// Whether the span is recorded by whoever made the context.
    pub is_sampled: bool,
    /// What systems on the way have added, passed on as it came; empty: nothing.
    pub state: Box<str>,
}

impl Context {
    /// The context in a `traceparent`: `00-` 32 hex digits `-` 16 hex digits `-` 2 hex digits, lower case. Later
    /// versions may have more behind that, which is left out. `None` for a text of another form, which the
    /// standard has ignored.
    pub fn parse(traceparent: &str) -> Option<Context> {
        let bytes = traceparent.trim_matches([' ', '\t']).as_bytes();
        let version = hex::<1>(bytes.get(..2)?)?[0];
        let well_formed = match version {
            0 => bytes.len() == 55,
            0xff => false,
            _ => bytes.len() == 55 || bytes.get(55) == Some(&b'-'),
        };
        if !well_formed || [bytes[2], bytes[35], bytes[52]] != [b'-'; 3] {
            return None;
        }
        let trace = hex::<16>(&bytes[3..35]).filter(|id| *id != [0; 16])?;
        let span = hex::<8>(&bytes[36..52]).filter(|id| *id != [0; 8])?;
        let is_sampled = hex::<1>(&bytes[53..55])?[0] & 1 == 1;
        let state = Box::default();
        Some(Context { trace: TraceId(trace), span: SpanId(span), is_sampled, state })
    }

    /// The context with a `tracestate`. One that is too long, or no printable ASCII, is left out.
    pub fn with_state(mut self, state: &str) -> Context {
        let is_plain = state.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if is_plain && state.len() <= STATE_BYTES_MAX {
            self.state = state.into();
        }
        self
    }
}

impl fmt::Display for Context {
    /// The `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

impl TraceId {
    /// A new number, of random bits.
    pub fn random() -> TraceId {
        TraceId(random())
    }
}

impl SpanId {
    /// A new number, of random bits.
    pub fn random() -> SpanId {
        SpanId(random())
    }
}

macro_rules! shown_in_hex {
    ($($id:ty),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}
shown_in_hex!(TraceId, SpanId);

/// Bytes that hex digits in lower case stand for; `None` if there are others, or more or fewer.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// Random bytes, not all of them zero. Numbers of spans are no secrets: of the system's generator comes the seed of a
/// thread alone.
fn random<const N: usize>() -> [u8; N] {
    use std::cell::Cell;
    static SEEDS: OnceLock<SystemRandom> = OnceLock::new();
    thread_local!(static STATE: Cell<u64> = {
        let mut seed = [0; 8];
        // Without the system's generator numbers may repeat, which a collector survives.
        let _ = SEEDS.get_or_init(SystemRandom::new).fill(&mut seed);
        Cell::new(u64::from_le_bytes(seed))
    });
    let mut bytes = [0; N];
    while bytes == [0; N] {
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
            let state = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
            STATE.set(state);
            let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            chunk.copy_from_slice(&(mixed ^ mixed >> 31).to_le_bytes()[..chunk.len()]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_and_written_as_the_standard_says() {
        let context = Context::parse(EXAMPLE).expect("the standard's own example");
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span.to_string(), "b7ad6b7169203331");
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), EXAMPLE);
        let unsampled = Context::parse(&EXAMPLE.replace("-01", "-02")).expect("another flag");
        assert!(!unsampled.is_sampled);
        let later = format!("cc{}-what-comes", &EXAMPLE[2..]);
        assert_eq!(Context::parse(&later), Some(context.clone()));
        assert_eq!(&*context.with_state("a=1,b=2").state, "a=1,b=2");
    }

    #[test]
    fn texts_of_another_form_are_no_context() {
        let zero_trace = EXAMPLE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_span = EXAMPLE.replace("b7ad6b7169203331", &"0".repeat(16));
        let odd = [
            String::new(),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("00-", "ff-"),
            format!("{EXAMPLE}-more"),
            format!("cc{}more", &EXAMPLE[2..]),
            EXAMPLE[..54].to_owned(),
            EXAMPLE.replace('-', "_"),
            zero_trace,
            zero_span,
        ];
        for text in odd {
            assert_eq!(Context::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn random_numbers_differ() {
        let all: std::collections::HashSet<_> = (0..1000).map(|_| TraceId::random()).collect();
        assert_eq!(all.len(), 1000);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,80}", cut in 0..60usize) {
            let _ = Context::parse(&text);
            let broken: String = EXAMPLE.chars().take(cut).chain(text.chars()).collect();
            if let Some(context) = Context::parse(&broken) {
                prop_assert_eq!(Context::parse(&context.to_string()), Some(context));
            }
        }
    }
}
