//! The slowdown matrix: how much longer operators take beside each other on a machine, as `halcyon lab interference --matrix`
//! has written it.
//!
//! The file is somebody else's: sizes are bounded, and every number is looked at. It decides about islands only if it is
//! conclusive and was measured on a machine of as many processors. What an operator is annotated with is known by its name.
//!
//! Invariant, checked by `random_bytes_and_damaged_matrices_are_refused_without_a_panic`: a matrix has a row for each operator, a
//! column for each partner, and all slowdowns are above 0 and at most 1,000.

use halcyon_json::{Tree, parse};
use halcyon_task::CacheUse;

/// Bytes of a file.
const BYTES_MAX: usize = 64 << 10;
/// Operators, and partners.
const OPERATORS_MAX: usize = 64;
/// Bytes of an operator's name.
const NAME_MAX: usize = 64;
/// The largest slowdown.
const SLOWDOWN_MAX: f64 = 1_000.0;
/// The partner of an operator that runs alone.
const NOBODY: &str = "nobody";
/// Below this slowdown, per mille, an operator lives from nothing that its partner took: the lab's own bound.
const HURT_MIN: u32 = 1_050;

/// Slowdowns of operators beside each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    operators: Vec<String>,
    partners: Vec<String>,
    /// By operator and partner, per mille of the time alone.
    slowdowns: Vec<Vec<u32>>,
    is_conclusive: bool,
    processors: Option<u64>,
}

/// An operator beside a partner.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixRow {
    /// Name of the operator.
    pub operator: String,
    /// Name of the partner; `nobody` for the operator alone.
    pub partner: String,
    /// Time beside the partner by time alone.
    pub slowdown: f64,
    /// How statements of this kind are annotated.
    pub cache_use: &'static str,
    /// Whether the operator is annotated as sensitive, the partner as polluting, and the operator hardly slower; `None` for
    /// other pairs, and if the matrix is not conclusive.
    pub is_contradicted: Option<bool>,
}

/// Why bytes are no matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixError {
    /// The file is larger than 64 KiB.
    TooLarge,
    /// The bytes are no JSON; its parser's words.
    NoJson(String),
    /// A member of the object is missing, or something else than the lab writes.
    Member(&'static str),
}

impl std::fmt::Display for MatrixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MatrixError::TooLarge => write!(f, "a slowdown matrix has {BYTES_MAX} bytes at most"),
            MatrixError::NoJson(why) => write!(f, "the slowdown matrix is no JSON: {why}"),
            MatrixError::Member(name) => {
                write!(
                    f,
                    "\"{name}\" of the slowdown matrix is not as `halcyon lab interference` writes it"
                )
            }
        }
    }
}

impl std::error::Error for MatrixError {}

/// How statements like an operator of the lab are annotated, by its name.
pub fn use_of(operator: &str) -> CacheUse {
    match operator {
        "scan" => CacheUse::Polluting,
        "join cache" | "group many" => CacheUse::Sensitive,
        _ => CacheUse::Adaptive,
    }
}

impl Matrix {
    /// The matrix of a file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Matrix, MatrixError> {
        if bytes.len() > BYTES_MAX {
            return Err(MatrixError::TooLarge);
        }
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|error| MatrixError::NoJson(error.to_string()))?;
        let tree =
            parse::tree(text).map_err(|error| MatrixError::NoJson(error.told().message.clone()))?;
        let Tree::Object(members) = tree else { return Err(MatrixError::Member("operators")) };
        let member = |name: &'static str| {
            let found = members.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value).ok_or(MatrixError::Member(name))
        };
        let names = |name| names(member(name)?).ok_or(MatrixError::Member(name));
        let (operators, partners) = (names("operators")?, names("partners")?);
        let slowdowns = slowdowns(member("slowdown")?, operators.len(), partners.len());
        let Tree::Bool(is_conclusive) = *member("conclusive")? else {
            return Err(MatrixError::Member("conclusive"));
        };
        let processors = match member("processors") {
            Ok(Tree::Number(number)) => number.to_string().parse().ok(),
            _ => None,
        };
        let slowdowns = slowdowns.ok_or(MatrixError::Member("slowdown"))?;
        Ok(Matrix { operators, partners, slowdowns, is_conclusive, processors })
    }

    /// What statements of two uses cost each other on one island: the mean slowdown of operators of the one beside those of the
    /// other, above the time alone, and the other way round, per mille. What is below the lab's bound of 5 % is nothing.
    ///
    /// Errors: why the matrix says nothing about a machine of so many processors.
    pub fn costs(&self, processors: usize) -> Result<[[u32; 3]; 3], String> {
        if !self.is_conclusive {
            return Err("it is not conclusive: other processes were at work".to_owned());
        }
        if self.processors != u64::try_from(processors).ok() {
            let of = self.processors.map_or("an unknown number of".to_owned(), |of| of.to_string());
            return Err(format!("it was measured on {of} processors, and here are {processors}"));
        }
        let mut sums = [[(0_u64, 0_u64); 3]; 3];
        for (operator, row) in self.operators.iter().zip(&self.slowdowns) {
            let beside = self.partners.iter().zip(row).filter(|(partner, _)| *partner != NOBODY);
            for (partner, slowdown) in beside {
                let more = if *slowdown < HURT_MIN { 0 } else { u64::from(slowdown - 1_000) };
                let sum = &mut sums[use_of(operator) as usize][use_of(partner) as usize];
                *sum = (sum.0 + more, sum.1 + 1);
            }
        }
        let mean = |one: usize, other: usize| sums[one][other].0.checked_div(sums[one][other].1);
        let (sensitive, polluting) = (CacheUse::Sensitive as usize, CacheUse::Polluting as usize);
        if mean(sensitive, polluting).is_none() {
            return Err("it has no sensitive operator beside a polluting one".to_owned());
        }
        let cost = |one, other| {
            let both = mean(one, other).unwrap_or(0) + mean(other, one).unwrap_or(0);
            u32::try_from(both).unwrap_or(u32::MAX)
        };
        Ok(std::array::from_fn(|one| std::array::from_fn(|other| cost(one, other))))
    }

    /// All pairs.
    pub fn rows(&self) -> Vec<MatrixRow> {
        let pairs = self.operators.iter().zip(&self.slowdowns).flat_map(|(operator, row)| {
            self.partners
                .iter()
                .zip(row)
                .map(move |(partner, slowdown)| (operator, partner, *slowdown))
        });
        let row = |(operator, partner, slowdown): (&String, &String, u32)| {
            let is_claim = self.is_conclusive
                && use_of(operator) == CacheUse::Sensitive
                && use_of(partner) == CacheUse::Polluting;
            MatrixRow {
                operator: operator.clone(),
                partner: partner.clone(),
                slowdown: f64::from(slowdown) / 1e3,
                cache_use: use_of(operator).name(),
                is_contradicted: is_claim.then_some(slowdown < HURT_MIN),
            }
        };
        pairs.map(row).collect()
    }
}

fn names(tree: &Tree) -> Option<Vec<String>> {
    let Tree::Array(elements) = tree else { return None };
    let name = |element: &Tree| match element {
        Tree::String(name) if name.len() <= NAME_MAX && !name.is_empty() => Some(name.clone()),
        _ => None,
    };
    let names: Option<Vec<String>> = elements.iter().map(name).collect();
    names.filter(|names| !names.is_empty() && names.len() <= OPERATORS_MAX)
}

fn slowdowns(tree: &Tree, rows: usize, columns: usize) -> Option<Vec<Vec<u32>>> {
    let number = |tree: &Tree| {
        let Tree::Number(number) = tree else { return None };
        let value: f64 = number.to_string().parse().ok()?;
        // At most a million, so it fits.
        (value > 0.0 && value <= SLOWDOWN_MAX).then(|| (value * 1e3).round() as u32)
    };
    let row = |tree: &Tree| {
        let Tree::Array(numbers) = tree else { return None };
        let numbers: Option<Vec<u32>> = numbers.iter().map(number).collect();
        numbers.filter(|numbers| numbers.len() == columns)
    };
    let Tree::Array(all) = tree else { return None };
    let all: Option<Vec<Vec<u32>>> = all.iter().map(row).collect();
    all.filter(|all| all.len() == rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A matrix of three operators, with the sensitive one's slowdown beside the scan.
    fn text(beside_scan: f64, is_conclusive: bool) -> String {
        format!(
            "{{\"caches\": [], \"processors\": 8, \"rows\": 1000, \"operators\": [\"scan\", \"join cache\", \"sort\"], \
             \"partners\": [\"scan\", \"join cache\", \"sort\", \"nobody\"], \
             \"slowdown\": [[1.1, 1.2, 1.02, 1.0], [{beside_scan}, 1.0, 1.04, 0.99], [1.3, 1.0, 2, 1]], \
             \"spread\": [], \"foreign_share\": 0.01, \"conclusive\": {is_conclusive}}}\n"
        )
    }

    fn matrix(beside_scan: f64, is_conclusive: bool) -> Matrix {
        Matrix::parse(text(beside_scan, is_conclusive).as_bytes()).expect("the lab's form")
    }

    #[test]
    fn costs_are_of_both_directions_and_small_ones_are_none() {
        let costs = matrix(1.4, true).costs(8).expect("it is conclusive");
        let [adaptive, sensitive, polluting] = [0, 1, 2];
        assert_eq!(costs[sensitive][polluting], 400 + 200);
        assert_eq!(costs[polluting][sensitive], 400 + 200);
        assert_eq!(costs[polluting][polluting], 2 * 100);
        assert_eq!(costs[adaptive][polluting], 300, "2 % of the scan is nothing");
        assert_eq!(costs[adaptive][adaptive], 2 * 1000);
        assert_eq!(costs[adaptive][sensitive], 0);
    }

    #[test]
    fn what_says_nothing_about_this_machine_decides_nothing() {
        let why = |matrix: Matrix, processors| matrix.costs(processors).expect_err("refused");
        assert!(why(matrix(1.4, false), 8).contains("not conclusive"));
        assert!(why(matrix(1.4, true), 2).contains("on 8 processors, and here are 2"));
        let lone = text(1.4, true).replace("join cache", "join small");
        let lone = Matrix::parse(lone.as_bytes()).expect("the lab's form");
        assert!(why(lone, 8).contains("no sensitive operator"));
    }

    #[test]
    fn an_annotation_is_contradicted_by_a_sensitive_operator_that_a_scan_does_not_hurt() {
        let found = |slowdown, is_conclusive| {
            let rows = matrix(slowdown, is_conclusive).rows();
            assert_eq!(rows.len(), 12);
            let told = rows.iter().filter(|row| row.is_contradicted.is_some()).count();
            assert_eq!(told, usize::from(is_conclusive));
            let row =
                rows.into_iter().find(|row| row.operator == "join cache" && row.partner == "scan");
            row.expect("the pair").is_contradicted
        };
        assert_eq!(
            (found(1.4, true), found(1.01, true), found(1.01, false)),
            (Some(false), Some(true), None)
        );
    }

    #[test]
    fn every_error_is_told_with_the_member_that_is_wrong() {
        let of = |text: String| Matrix::parse(text.as_bytes()).expect_err("refused");
        assert_eq!(of(" ".repeat(BYTES_MAX + 1)), MatrixError::TooLarge);
        assert!(matches!(of("{".into()), MatrixError::NoJson(_)));
        assert_eq!(
            Matrix::parse(&[0xff]).err().map(|error| matches!(error, MatrixError::NoJson(_))),
            Some(true)
        );
        for (old, new, member) in [
            ("[\"scan\", \"join cache\", \"sort\"], \"partners\"", "[], \"partners\"", "operators"),
            ("\"nobody\"", "7", "partners"),
            ("1.4", "0", "slowdown"),
            ("1.4", "1e400", "slowdown"),
            ("1.4", "-1.4", "slowdown"),
            ("1.4, ", "", "slowdown"),
            ("\"conclusive\": true", "\"conclusive\": 1", "conclusive"),
        ] {
            let changed = text(1.4, true).replace(old, new);
            assert_eq!(of(changed), MatrixError::Member(member), "{old} as {new}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_and_damaged_matrices_are_refused_without_a_panic(
            bytes: Vec<u8>, at in 0_usize..400, with in ".{0,6}", cut in 0_usize..400,
        ) {
            let _ = Matrix::parse(&bytes);
            let mut damaged: Vec<char> = text(1.4, true).chars().collect();
            let at = at.min(damaged.len());
            damaged.splice(at..(at + cut % 7).min(damaged.len()), with.chars());
            damaged.truncate(damaged.len().saturating_sub(cut / 100));
            let damaged: String = damaged.into_iter().collect();
            if let Ok(matrix) = Matrix::parse(damaged.as_bytes()) {
                prop_assert_eq!(matrix.slowdowns.len(), matrix.operators.len());
                for row in &matrix.slowdowns {
                    prop_assert_eq!(row.len(), matrix.partners.len());
                    prop_assert!(row.iter().all(|slowdown| *slowdown <= 1_000_000));
                }
                let _ = (matrix.costs(8), matrix.rows());
            }
        }
    }
}
