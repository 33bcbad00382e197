//! Crates that a rule spares for a while, each with the reason.

use super::Offence;

/// A crate whose breaches of a rule are known and being mended.
pub struct Excuse {
    /// The package's name.
    pub name: &'static str,
    /// What is being done about it.
    pub why: &'static str,
}

/// The offences that no excuse covers, and the excuses that nothing needs any more. `list` is the
/// file in which the excuses stand.
pub fn apply<'a>(
    excuses: &[Excuse],
    list: &str,
    per_crate: impl Iterator<Item = (&'a str, Vec<Offence>)>,
) -> Vec<Offence> {
    let mut found = Vec::new();
    let mut needed: Vec<&str> = Vec::new();
    for (name, offences) in per_crate {
        match excuses.iter().find(|excuse| excuse.name == name) {
            Some(excuse) if !offences.is_empty() => needed.push(excuse.name),
            _ => found.extend(offences),
        }
    }
    let idle = excuses.iter().filter(|excuse| !needed.contains(&excuse.name));
    found.extend(idle.map(|excuse| {
        let message = format!(
            "`{}` needs its excuse no longer (it {}); take it out of the list",
            excuse.name, excuse.why
        );
        Offence::new(list, message)
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCUSES: &[Excuse] = &[Excuse { name: "a", why: "is being divided" }];

    fn check(per_crate: &[(&'static str, usize)]) -> Vec<String> {
        let offences = |count: usize| (0..count).map(|_| Offence::new("here", "wrong")).collect();
        let per_crate = per_crate.iter().map(|(name, count)| (*name, offences(*count)));
        apply(EXCUSES, "rule.rs", per_crate).iter().map(Offence::to_string).collect()
    }

    #[test]
    fn an_excused_crate_is_spared_and_no_other() {
        assert_eq!(check(&[("a", 2), ("b", 1)]), ["here: wrong"]);
    }

    #[test]
    fn an_excuse_that_nothing_needs_is_refused() {
        let stale = "rule.rs: `a` needs its excuse no longer (it is being divided); take it out of \
                     the list";
        assert_eq!(check(&[("a", 0)]), [stale]);
        assert_eq!(check(&[]), [stale], "nor one of a crate that is gone");
    }
}
