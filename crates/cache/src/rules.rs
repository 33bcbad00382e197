//! What a tree of resctrl says about the cache that it divides.
//!
//! Only files are asked. Flags of `/proc/cpuinfo` are hints that new kernels no longer add to.

use std::io;

use crate::fs::ResctrlFs;
use crate::mask::{Mask, MaskRules};

/// The cache that is divided, and by which rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Name of the schema that masks of data are written to: `L3`, or `L3DATA` where code has masks
    /// of its own (CDP).
    pub schema: &'static str,
    /// What masks are taken.
    pub masks: MaskRules,
    /// Groups that there may be, with the default one.
    pub groups_max: u32,
    /// Ids of the caches; ids may have gaps.
    pub domains: Vec<u32>,
    /// Whether the occupancy of groups is counted.
    pub counts_occupancy: bool,
    /// Whether the memory bandwidth of groups is counted.
    pub counts_bandwidth: bool,
}

/// Why the rules cannot be told.
#[derive(Debug)]
pub enum RulesProblem {
    /// The tree divides no last-level cache.
    NoL3,
    /// A file has something else than the kernel's documentation says.
    Unreadable {
        /// Path of the file.
        path: String,
        /// What the file has.
        text: String,
    },
    /// A file could not be read.
    Io {
        /// Path of the file.
        path: String,
        /// The operating system's error.
        error: io::Error,
    },
}

impl std::fmt::Display for RulesProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RulesProblem::NoL3 => {
                f.write_str("resctrl divides no last-level cache on this machine")
            }
            RulesProblem::Unreadable { path, text } => {
                write!(f, "{path} has {:?}", text.chars().take(80).collect::<String>())
            }
            RulesProblem::Io { path, error } => write!(f, "{path}: {error}"),
        }
    }
}

impl CacheRules {
    /// The rules of the tree.
    pub fn read(tree: &dyn ResctrlFs) -> Result<CacheRules, RulesProblem> {
        let infos = tree.folders("info").map_err(io_at("info"))?;
        let has = |name: &str| infos.iter().any(|info| info == name);
        // With CDP there are L3CODE and L3DATA in place of L3.
        let schema = if has("L3DATA") { "L3DATA" } else { "L3" };
        if !has(schema) {
            return Err(RulesProblem::NoL3);
        }
        let mask = |file: &str| required(tree, &format!("info/{schema}/{file}"), Mask::parse);
        let number = |file: &str| {
            required(tree, &format!("info/{schema}/{file}"), |text| text.trim().parse::<u32>().ok())
        };
        let sparse = tree.read(&format!("info/{schema}/sparse_masks"));
        let masks = MaskRules {
            full: mask("cbm_mask")?,
            // Old kernels lack the file; no way is then known to be shared.
            shareable: mask("shareable_bits").unwrap_or_default(),
            ways_min: number("min_cbm_bits")?,
            // Kernels before 6.7 lack the file; side by side is right everywhere.
            sparse: sparse.is_ok_and(|text| text.trim() == "1"),
        };
        let schemata = tree.read("schemata").map_err(io_at("schemata"))?;
        let domains: Vec<u32> = masks_of(&schemata, schema)
            .ok_or(RulesProblem::Unreadable { path: "schemata".to_owned(), text: schemata })?
            .iter()
            .map(|&(domain, _)| domain)
            .collect();
        let features = tree.read("info/L3_MON/mon_features").unwrap_or_default();
        Ok(CacheRules {
            schema,
            masks,
            groups_max: number("num_closids")?,
            domains,
            counts_occupancy: features.lines().any(|line| line == "llc_occupancy"),
            counts_bandwidth: features.lines().any(|line| line == "mbm_total_bytes"),
        })
    }

    /// The line of `schemata` that gives every cache this mask.
    pub fn line(&self, mask: Mask) -> String {
        let parts: Vec<String> = self.domains.iter().map(|id| format!("{id}={mask}")).collect();
        format!("{}:{}", self.schema, parts.join(";"))
    }
}

fn io_at(path: &str) -> impl Fn(io::Error) -> RulesProblem {
    let path = path.to_owned();
    move |error| RulesProblem::Io { path: path.clone(), error }
}

fn required<T>(
    tree: &dyn ResctrlFs,
    path: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, RulesProblem> {
    let text = tree.read(path).map_err(io_at(path))?;
    parse(&text).ok_or_else(|| RulesProblem::Unreadable { path: path.to_owned(), text })
}

/// The masks that a text of `schemata` gives the caches of a schema: (id of the cache, mask), in the
/// text's order. `None` if the schema has no line, or the line is none of the kernel's.
pub fn masks_of(schemata: &str, schema: &str) -> Option<Vec<(u32, Mask)>> {
    let mut lines = schemata.lines().filter_map(|line| line.trim().split_once(':'));
    let (_, caches) = lines.find(|(name, _)| name.trim() == schema)?;
    let masks: Option<Vec<(u32, Mask)>> = caches
        .split(';')
        .map(|part| {
            let (id, mask) = part.split_once('=')?;
            Some((id.trim().parse().ok()?, Mask::parse(mask)?))
        })
        .collect();
    masks.filter(|masks| !masks.is_empty())
}

/// A counter's value; `None` if the kernel has none to tell (`Unavailable`, `Error`, `Unassigned`).
pub fn counted(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_schema_is_found_among_others_and_ids_may_have_gaps() {
        let text = "    MB:0=100;4=50\n    L3:0=fffff;4=3\n";
        assert_eq!(masks_of(text, "L3"), Some(vec![(0, Mask(0xf_ffff)), (4, Mask(3))]));
        assert_eq!(masks_of(text, "L3DATA"), None);
        assert_eq!(masks_of("L3:0=zz", "L3"), None);
        assert_eq!(masks_of("L3:", "L3"), None);
    }

    #[test]
    fn a_counter_that_cannot_be_read_has_no_value() {
        for text in ["Unavailable\n", "Error\n", "Unassigned\n", ""] {
            assert_eq!(counted(text), None);
        }
        assert_eq!(counted("8388608\n"), Some(8_388_608));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "[ -~\n]{0,80}", bytes: Vec<u8>) {
            let any = String::from_utf8_lossy(&bytes);
            for text in [text.as_str(), &any] {
                let _ = (masks_of(text, "L3"), Mask::parse(text), counted(text));
            }
        }

        #[test]
        fn masks_are_read_back_as_they_were_written(ids in prop::collection::vec(0_u32..99, 1..9), bits: u64) {
            let rules = CacheRules {
                schema: "L3",
                masks: MaskRules { full: Mask::lowest(64), shareable: Mask(0), ways_min: 1, sparse: true },
                groups_max: 4,
                domains: ids.clone(),
                counts_occupancy: false,
                counts_bandwidth: false,
            };
            let read = masks_of(&rules.line(Mask(bits)), "L3").expect("a line of ours");
            let wanted: Vec<(u32, Mask)> = ids.iter().map(|&id| (id, Mask(bits))).collect();
            prop_assert_eq!(read, wanted);
        }
    }
}
