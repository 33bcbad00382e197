//! The forms that values of knobs have, and when two texts are one value.
//!
//! The kernel reads a value back in a form of its own: `e` as `00000000,0000000e`, `1,2,3` as `1-3`,
//! `+cpuset` as a list of controllers. Comparing texts would take every such value for somebody else's.

use halcyon_machine::topology;

/// Processors beyond this number are taken for nonsense.
const CPU_MAX: usize = 8192;

/// The form of a knob's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Processors as hexadecimal digits in groups of eight: `f`, `00000001,ffffffff`.
    Mask,
    /// Processors as a list: `0-3,8`.
    List,
    /// An integer.
    Number,
    /// Whether the controller `cpuset` is on: `+cpuset` and `-cpuset` written, a list of names read.
    Controller,
    /// A text as it stands.
    Word,
}

impl Form {
    /// All forms, and their names in a journal.
    pub const NAMES: [(Form, &'static str); 5] = [
        (Form::Mask, "mask"),
        (Form::List, "list"),
        (Form::Number, "number"),
        (Form::Controller, "controller"),
        (Form::Word, "word"),
    ];

    /// Whether two texts stand for one value.
    pub fn same(self, one: &str, other: &str) -> bool {
        let (one, other) = (one.trim(), other.trim());
        let equal = match self {
            Form::Mask | Form::List => self.cpus(one).zip(self.cpus(other)).map(|(a, b)| a == b),
            Form::Number => number(one).zip(number(other)).map(|(a, b)| a == b),
            Form::Controller => Some(is_on(one) == is_on(other)),
            Form::Word => None,
        };
        equal.unwrap_or(one == other)
    }

    /// The processors that a text names, ascending; none of a text that is no mask or list.
    pub fn cpus(self, text: &str) -> Option<Vec<u32>> {
        match self {
            Form::Mask => mask(text.trim()),
            Form::List => topology::list(text).ok(),
            _ => None,
        }
    }

    /// Processors as a text that the kernel takes. `cpus`: ascending.
    pub fn text(self, cpus: &[u32]) -> String {
        match self {
            Form::Mask => mask_text(cpus),
            _ => topology::list_text(cpus).replace(' ', ""),
        }
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn is_on(text: &str) -> bool {
    text == "+cpuset" || text.split_ascii_whitespace().any(|word| word == "cpuset")
}

/// The processors of a mask: groups of at most eight digits, the highest first.
fn mask(text: &str) -> Option<Vec<u32>> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let mut cpus = Vec::new();
    for (group, digits) in text.split(',').rev().enumerate() {
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fits = (1..=8).contains(&digits.len()) && group * 32 < CPU_MAX;
        if !is_hex || !fits {
            return None;
        }
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u32::try_from(group * 32).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit));
    }
    Some(cpus)
}

fn mask_text(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let group = |number: u32| {
        let there = cpus.iter().filter(|cpu| *cpu / 32 == number);
        there.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let texts: Vec<String> = (0..groups)
        .rev()
        .map(|number| match number + 1 == groups {
            true => format!("{:x}", group(number)),
            false => format!("{:08x}", group(number)),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use halcyon_base::rng::Rng;

    #[test]
    fn values_are_equal_in_every_form_that_the_kernel_gives_them() {
        for (form, one, other) in [
            (Form::Mask, "e", "00000000,0000000e\n"),
            (Form::Mask, "1,00000000", "00000001,00000000"),
            (Form::List, "1,2,3", "1-3\n"),
            (Form::List, "", "\n"),
            (Form::Number, "10", "10\n"),
            (Form::Controller, "+cpuset", "cpu cpuset io\n"),
            (Form::Controller, "-cpuset", "cpu io"),
            (Form::Controller, "-cpuset", "\n"),
            (Form::Word, "isolated", "isolated\n"),
        ] {
            assert!(form.same(one, other) && form.same(other, one), "{form:?} {one:?} {other:?}");
        }
        for (form, one, other) in [
            (Form::Mask, "e", "f"),
            (Form::List, "0-3", "0-2"),
            (Form::Number, "1", "10"),
            (Form::Controller, "+cpuset", "cpu"),
            (Form::Word, "isolated", "isolated invalid (Cpu list in cpuset.cpus not exclusive)"),
        ] {
            assert!(!form.same(one, other), "{form:?} {one:?} {other:?}");
        }
    }

    #[test]
    fn processors_become_texts_that_are_read_as_the_same_processors() {
        let mut rng = Rng::new(7);
        for _ in 0..2_000 {
            let mut cpus: Vec<u32> = (0..rng.below(9)).map(|_| rng.below(300) as u32).collect();
            cpus.sort_unstable();
            cpus.dedup();
            for form in [Form::Mask, Form::List] {
                assert_eq!(form.cpus(&form.text(&cpus)), Some(cpus.clone()), "{form:?}");
            }
        }
        assert_eq!(Form::Mask.text(&[0, 1, 33]), "2,00000003");
        assert_eq!(Form::List.text(&[0, 1, 2, 8]), "0-2,8");
    }

    #[test]
    fn no_bytes_make_a_reader_of_masks_and_lists_panic() {
        let mut rng = Rng::new(11);
        let letters = b"0123456789abcdefx,-\n +cpuset";
        for _ in 0..50_000 {
            let length = rng.below(24) as usize;
            let bytes: Vec<u8> = (0..length)
                .map(|_| match rng.below(8) {
                    0 => rng.below(256) as u8,
                    _ => letters[rng.below(letters.len() as u64) as usize],
                })
                .collect();
            let text = String::from_utf8_lossy(&bytes);
            for (form, _) in Form::NAMES {
                let _ = form.cpus(&text);
                assert!(form.same(&text, &text), "{form:?} {text:?}");
            }
        }
    }
}
