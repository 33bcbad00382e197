//! Traces of valgrind's lackey (`--trace-mem=yes`): a line for each reference of a program.

/// The kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An instruction.
    Fetch,
    /// Data is read.
    Load,
    /// Data is written.
    Store,
    /// Data is read and written.
    Modify,
}

/// A reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Kind.
    pub kind: Kind,
    /// First byte.
    pub address: u64,
    /// Bytes, 1 to 4,096.
    pub bytes: u32,
}

impl Reference {
    /// The reference of a trace's line; `None` for lines of other kinds.
    pub fn parse(line: &str) -> Option<Reference> {
        let kind = match line.get(..3)? {
            "I  " => Kind::Fetch,
            " L " => Kind::Load,
            " S " => Kind::Store,
            " M " => Kind::Modify,
            _ => return None,
        };
        let (address, bytes) = line[3..].trim_end().split_once(',')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let bytes = bytes.parse().ok().filter(|bytes| (1..=4096).contains(bytes))?;
        address.checked_add(u64::from(bytes))?;
        Some(Reference { kind, address, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_are_told_from_what_else_is_printed() {
        let parsed = |line| Reference::parse(line).map(|r| (r.kind, r.address, r.bytes));
        assert_eq!(parsed("I  04001090,3"), Some((Kind::Fetch, 0x400_1090, 3)));
        assert_eq!(parsed(" L 1ffefffe7c,4"), Some((Kind::Load, 0x001f_feff_fe7c, 4)));
        assert_eq!(parsed(" S 1ffefffe70,8\n"), Some((Kind::Store, 0x001f_feff_fe70, 8)));
        assert_eq!(parsed(" M 0421c7c0,4"), Some((Kind::Modify, 0x421_c7c0, 4)));
        for other in ["==12== Lackey", "", " L ", " L zz,4", " L 10,0", " L 10", "I 04,3"] {
            assert_eq!(parsed(other), None, "{other:?}");
        }
        assert_eq!(parsed(" L ffffffffffffffff,8"), None, "beyond the last address");
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(bytes: Vec<u8>, text in "[ILSM ]{3}[0-9a-f,é]{0,20}") {
            let _ = (Reference::parse(&String::from_utf8_lossy(&bytes)), Reference::parse(&text));
        }
    }
}
