//! Circles in the graphs of siblings: the knots, and the shortest circle of each.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;

use super::resolve::Edge;

/// Modules that reach each other, and the shortest way round.
#[derive(Debug)]
pub struct Circle {
    /// Parent of the modules, as a path with `::`; empty for the root.
    pub parent: String,
    /// All that reach each other, sorted.
    pub knot: Vec<String>,
    /// The shortest circle among them.
    pub steps: Vec<Step>,
}

impl Circle {
    /// The parent's path as messages have it.
    pub fn parent_name(&self) -> &str {
        if self.parent.is_empty() { "the crate" } else { &self.parent }
    }

    /// All of `edges` within the knot: a line per pair of modules with the paths that make it.
    pub fn pairs(&self, edges: &[Edge]) -> Vec<String> {
        let mut pairs: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        let within = |edge: &&Edge| {
            edge.parent.join("::") == self.parent
                && self.knot.contains(&edge.from)
                && self.knot.contains(&edge.to)
        };
        for edge in edges.iter().filter(within) {
            pairs.entry((&edge.from, &edge.to)).or_default().insert(&edge.text);
        }
        let line = |((from, to), paths): ((&str, &str), BTreeSet<&str>)| {
            format!("  {from} -> {to}: {}", paths.into_iter().collect::<Vec<_>>().join(", "))
        };
        pairs.into_iter().map(line).collect()
    }
}

/// One edge of a circle: the first place that makes it, and how many more there are.
#[derive(Clone, Debug)]
pub struct Step {
    first: Edge,
    more: usize,
}

impl Step {
    /// File and line of the edge.
    pub fn place(&self) -> String {
        format!("{}:{}", self.first.file, self.first.line)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.more {
            0 => write!(f, "{})", self.first),
            1 => write!(f, "{}, and 1 more place)", self.first),
            more => write!(f, "{}, and {more} more places)", self.first),
        }
    }
}

/// Siblings of one parent: from each, the edge to every other that it uses.
type Siblings = BTreeMap<String, BTreeMap<String, Step>>;

/// One circle for every knot of siblings.
pub fn circles(edges: &[Edge]) -> Vec<Circle> {
    let mut levels: BTreeMap<&[String], Siblings> = BTreeMap::new();
    for edge in edges {
        let siblings = levels.entry(&edge.parent).or_default();
        siblings.entry(edge.to.clone()).or_default();
        let steps = siblings.entry(edge.from.clone()).or_default();
        steps
            .entry(edge.to.clone())
            .and_modify(|step| step.more += 1)
            .or_insert_with(|| Step { first: edge.clone(), more: 0 });
    }
    let mut found = Vec::new();
    for (parent, siblings) in &levels {
        for knot in knots(siblings) {
            let steps = shortest(siblings, &knot);
            found.push(Circle { parent: parent.join("::"), knot, steps });
        }
    }
    found
}

/// Sets of two and more siblings that all reach each other.
fn knots(siblings: &Siblings) -> Vec<Vec<String>> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        siblings.keys().map(|name| (name.as_str(), reachable(siblings, name))).collect();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for (name, reached) in &reach {
        if placed.contains(name) || !reached.contains(name) {
            continue;
        }
        let knot: Vec<&str> =
            reached.iter().copied().filter(|other| reach[other].contains(name)).collect();
        placed.extend(&knot);
        found.push(knot.into_iter().map(str::to_owned).collect());
    }
    found
}

/// What is reached from `start` by one edge or more.
fn reachable<'a>(siblings: &'a Siblings, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = siblings[start].keys().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(siblings[name].keys().map(String::as_str));
        }
    }
    reached
}

/// The shortest circle of a knot; of several the one that begins with the first name.
fn shortest(siblings: &Siblings, knot: &[String]) -> Vec<Step> {
    let circles = knot.iter().filter_map(|start| round(siblings, start));
    circles.min_by_key(Vec::len).unwrap_or_default()
}

/// The shortest way from `start` back to it.
fn round(siblings: &Siblings, start: &str) -> Option<Vec<Step>> {
    let mut came_from: HashMap<&str, &str> = HashMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for next in siblings[at].keys().map(String::as_str) {
            if next == start {
                return Some(way(siblings, &came_from, start, at));
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                open.push_back(next);
            }
        }
    }
    None
}

/// The edges from `start` to `end` and from there back to `start`.
fn way(siblings: &Siblings, came_from: &HashMap<&str, &str>, start: &str, end: &str) -> Vec<Step> {
    let mut steps = vec![siblings[end][start].clone()];
    let mut at = end;
    while at != start {
        let before = came_from[at];
        steps.push(siblings[before][at].clone());
        at = before;
    }
    steps.reverse();
    steps
}
