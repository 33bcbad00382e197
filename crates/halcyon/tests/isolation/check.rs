//! Is a history of list-append transactions serializable, and if not, which anomaly shows it?
//!
//! Every transaction appends unique elements to lists and reads whole lists. A list tells the
//! order of its versions, so the dependencies between transactions follow from the reads alone,
//! without a look into the database:
//! - *ww*: one appended right after the other;
//! - *wr*: one read the version that the other made;
//! - *rw*: one read a version, the other made the next one.
//!
//! A history is serializable if these have no cycle. The kind of the simplest cycle names the
//! anomaly. Reads that no order of versions explains are reported by themselves.
//! Shape: an element is appended at most once in the whole history. A last transaction should
//! read every list, or the order of elements that nobody read stays unknown and is not used.
//! Cost: O(elements read + edges). Source: Kingsbury and Alvaro, "Elle", 2020; the anomalies are
//! Adya's, 1999. Unlike Elle, no order of real time is taken into account.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// The name of a list.
pub type Key = u32;
/// Appended once in a history.
pub type Element = u64;

/// What a transaction did to a list, as it saw it.
#[derive(Clone, Debug)]
pub enum Op {
    Read(Key, Vec<Element>),
    Append(Key, Element),
    /// Appended, and undone again by going back to a savepoint.
    Undone(Key, Element),
}

/// A transaction that has ended.
#[derive(Clone, Debug)]
pub struct Txn {
    pub ops: Vec<Op>,
    pub committed: bool,
}

/// Why a history is not serializable. The first ones weigh heaviest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// A list holds what nobody appended to it, or holds it twice.
    Garbage,
    /// A transaction does not see its own appends, or sees a list change while it reads.
    Internal,
    /// Two reads of a list, neither of which is the beginning of the other.
    Disorder,
    /// An append of a committed transaction that a later version does not hold.
    Lost,
    /// Writes of two transactions in opposite orders: a cycle of ww.
    G0,
    /// A committed transaction read what an aborted one wrote.
    G1a,
    /// A transaction read what another overwrote itself.
    G1b,
    /// A cycle of ww and wr.
    G1c,
    /// A cycle with one rw.
    GSingle,
    /// A cycle with several rw.
    G2Item,
}

/// One proof that a history is not serializable.
#[derive(Clone, Debug)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// The transactions concerned, by position in the history; a cycle in its order.
    pub txns: Vec<usize>,
    pub text: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// All anomalies found, one per kind and strongly connected component; none in a serializable
/// history.
pub fn check(history: &[Txn]) -> Vec<Anomaly> {
    let mut found = Vec::new();
    let appends = Appends::of(history);
    for (number, txn) in history.iter().enumerate() {
        check_internal(number, txn, &mut found);
        if txn.committed {
            check_reads(number, txn, &appends, &mut found);
        }
    }
    let versions = versions(history, &mut found);
    check_lost(history, &versions, &mut found);
    if found
        .iter()
        .any(|anomaly| matches!(anomaly.kind, AnomalyKind::Garbage | AnomalyKind::Disorder))
    {
        // Without one order of versions, edges would mean nothing.
        return found;
    }
    let graph = Graph::of(history, &appends, &versions);
    graph.cycles(&mut found);
    found
}

/// Who appended an element, and how.
struct Append {
    txn: usize,
    key: Key,
    committed: bool,
    /// The last one of its transaction to this list, so that the version after it is visible.
    last: bool,
}

struct Appends(HashMap<Element, Append>);

impl Appends {
    fn of(history: &[Txn]) -> Self {
        let mut appends = HashMap::new();
        for (txn, Txn { ops, committed }) in history.iter().enumerate() {
            let mut last: HashMap<Key, Element> = HashMap::new();
            for op in ops {
                let (key, element, undone) = match *op {
                    Op::Append(key, element) => (key, element, false),
                    Op::Undone(key, element) => (key, element, true),
                    Op::Read(..) => continue,
                };
                let append = Append { txn, key, committed: *committed && !undone, last: false };
                let before = appends.insert(element, append);
                assert!(before.is_none(), "element {element} is appended twice");
                if !undone {
                    last.insert(key, element);
                }
            }
            for element in last.values() {
                appends.get_mut(element).expect("inserted above").last = true;
            }
        }
        Appends(appends)
    }

    fn writer(&self, element: Element) -> usize {
        self.0[&element].txn
    }
}

fn reads(txn: &Txn) -> impl Iterator<Item = (Key, &[Element])> {
    txn.ops.iter().filter_map(|op| match op {
        Op::Read(key, list) => Some((*key, list.as_slice())),
        _ => None,
    })
}

/// Each read holds what the transaction read and appended before, and its own elements last.
fn check_internal(number: usize, txn: &Txn, found: &mut Vec<Anomaly>) {
    let mut expected: HashMap<Key, Vec<Element>> = HashMap::new();
    let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
    for op in &txn.ops {
        match op {
            Op::Append(key, element) => {
                own.entry(*key).or_default().push(*element);
                if let Some(list) = expected.get_mut(key) {
                    list.push(*element);
                }
            }
            Op::Undone(..) => {}
            Op::Read(key, list) => {
                let differs = expected.get(key).is_some_and(|expected| expected != list);
                let forgets = own.get(key).is_some_and(|own| !list.ends_with(own));
                if differs || forgets {
                    found.push(Anomaly {
                        kind: AnomalyKind::Internal,
                        txns: vec![number],
                        text: format!(
                            "T{number} read list {key} as {list:?}, after {:?} and its own {:?}",
                            expected.get(key),
                            own.get(key)
                        ),
                    });
                    return;
                }
                expected.insert(*key, list.clone());
            }
        }
    }
}

/// What a committed transaction read was appended there, once, and may be seen by others.
fn check_reads(number: usize, txn: &Txn, appends: &Appends, found: &mut Vec<Anomaly>) {
    let mut report = |kind, other: usize, text: String| {
        found.push(Anomaly { kind, txns: vec![number, other], text: format!("T{number} {text}") });
    };
    for (key, list) in reads(txn) {
        let mut seen = BTreeSet::new();
        for (position, element) in list.iter().enumerate() {
            let append = appends.0.get(element).filter(|append| append.key == key);
            let Some(append) = append else {
                report(
                    AnomalyKind::Garbage,
                    number,
                    format!("read {element} in list {key}: {list:?}"),
                );
                continue;
            };
            if !seen.insert(element) {
                report(AnomalyKind::Garbage, number, format!("read {element} twice: {list:?}"));
            }
            let other = append.txn;
            if other == number {
                continue;
            }
            if !append.committed {
                let text = format!("read {element} of T{other}, which undid it: {list:?}");
                report(AnomalyKind::G1a, other, text);
            } else if position + 1 == list.len() && !append.last {
                let text = format!("read {element}, which T{other} overwrote: {list:?}");
                report(AnomalyKind::G1b, other, text);
            }
        }
    }
}

/// The longest read of each list by a committed transaction: the order of its versions.
fn versions<'h>(
    history: &'h [Txn],
    found: &mut Vec<Anomaly>,
) -> BTreeMap<Key, (usize, &'h [Element])> {
    let mut longest: BTreeMap<Key, (usize, &[Element])> = BTreeMap::new();
    let committed = || history.iter().enumerate().filter(|(_, txn)| txn.committed);
    for (number, txn) in committed() {
        for (key, list) in reads(txn) {
            let entry = longest.entry(key).or_insert((number, list));
            if entry.1.len() < list.len() {
                *entry = (number, list);
            }
        }
    }
    let mut reported = BTreeSet::new();
    for (number, txn) in committed() {
        for (key, list) in reads(txn) {
            let (other, whole) = longest[&key];
            if !whole.starts_with(list) && reported.insert(key) {
                found.push(Anomaly {
                    kind: AnomalyKind::Disorder,
                    txns: vec![number, other],
                    text: format!("T{number} read list {key} as {list:?}, T{other} as {whole:?}"),
                });
            }
        }
    }
    longest
}

/// What a committed transaction appended is in the list it read afterwards, or in every longer
/// one; if the last transaction reads all lists, in its reads.
fn check_lost(
    history: &[Txn],
    versions: &BTreeMap<Key, (usize, &[Element])>,
    found: &mut Vec<Anomaly>,
) {
    let Some((reader, last)) = history.iter().enumerate().next_back() else {
        return;
    };
    if !last.committed || last.ops.iter().any(|op| !matches!(op, Op::Read(..))) {
        return;
    }
    let whole: HashMap<Key, BTreeSet<Element>> =
        reads(last).map(|(key, list)| (key, list.iter().copied().collect())).collect();
    for (number, txn) in history.iter().enumerate().filter(|(_, txn)| txn.committed) {
        for op in &txn.ops {
            let Op::Append(key, element) = op else { continue };
            if whole.get(key).is_some_and(|list| !list.contains(element)) {
                found.push(Anomaly {
                    kind: AnomalyKind::Lost,
                    txns: vec![number, reader],
                    text: format!(
                        "T{number} appended {element} to list {key}; the end is {:?}",
                        versions[key].1
                    ),
                });
            }
        }
    }
}

/// Kinds of edges, each a bit, so that a set of kinds is a mask.
const WW: u8 = 1;
const WR: u8 = 2;
const RW: u8 = 4;

fn edge_name(kind: u8) -> &'static str {
    match kind {
        WW => "ww",
        WR => "wr",
        _ => "rw",
    }
}

/// Dependencies between committed transactions.
struct Graph {
    edges: Vec<Vec<(usize, u8, Key)>>,
}

impl Graph {
    fn of(
        history: &[Txn],
        appends: &Appends,
        versions: &BTreeMap<Key, (usize, &[Element])>,
    ) -> Self {
        let mut graph = Graph { edges: vec![Vec::new(); history.len()] };
        let mut place: HashMap<Element, usize> = HashMap::new();
        for (&key, &(_, list)) in versions {
            place.extend(list.iter().enumerate().map(|(position, &element)| (element, position)));
            for pair in list.windows(2) {
                graph.add(appends.writer(pair[0]), appends.writer(pair[1]), WW, key);
            }
        }
        for (number, txn) in history.iter().enumerate().filter(|(_, txn)| txn.committed) {
            for (key, list) in reads(txn) {
                let foreign = list.iter().rev().find(|&&e| appends.writer(e) != number);
                if let Some(&element) = foreign {
                    graph.add(appends.writer(element), number, WR, key);
                }
                let next = list.last().map_or(0, |element| place[element] + 1);
                let later = versions[&key].1[next..].iter();
                let overwriter = later.map(|&e| appends.writer(e)).find(|&writer| writer != number);
                if let Some(writer) = overwriter {
                    graph.add(number, writer, RW, key);
                }
            }
        }
        graph
    }

    fn add(&mut self, from: usize, to: usize, kind: u8, key: Key) {
        if from != to {
            self.edges[from].push((to, kind, key));
        }
    }

    fn cycles(&self, found: &mut Vec<Anomaly>) {
        let known = found.len();
        self.cycles_within(WW, AnomalyKind::G0, found);
        self.cycles_within(WW | WR, AnomalyKind::G1c, found);
        self.cycles_with_rw(found);
        // A cycle of fewer kinds is also one of more: keep the simplest of each component.
        let mut seen = BTreeSet::new();
        let mut position = 0;
        found.retain(|anomaly| {
            position += 1;
            position <= known || anomaly.txns.iter().all(|&txn| seen.insert(txn))
        });
    }

    fn cycles_within(&self, kinds: u8, kind: AnomalyKind, found: &mut Vec<Anomaly>) {
        for component in self.components(kinds) {
            let start = component[0];
            let path = self.path(start, start, kinds, &component);
            self.report(
                kind,
                path.expect("a component has a cycle through each of its own"),
                found,
            );
        }
    }

    /// In each component: the shortest way back from the end of an rw edge to its beginning
    /// without another rw, else with.
    fn cycles_with_rw(&self, found: &mut Vec<Anomaly>) {
        for component in self.components(WW | WR | RW) {
            let members: BTreeSet<usize> = component.iter().copied().collect();
            let from_member =
                |&from: &usize| self.edges[from].iter().map(move |edge| (from, *edge));
            let inner = component.iter().flat_map(from_member);
            let rw: Vec<_> =
                inner.filter(|(_, (to, kind, _))| *kind == RW && members.contains(to)).collect();
            let back = |kinds: u8| {
                rw.iter().find_map(|&(from, (to, kind, key))| {
                    let mut cycle = vec![(from, to, kind, key)];
                    cycle.extend(self.path(to, from, kinds, &component)?);
                    Some(cycle)
                })
            };
            if let Some(cycle) = back(WW | WR) {
                self.report(AnomalyKind::GSingle, cycle, found);
            } else if let Some(cycle) = back(WW | WR | RW) {
                self.report(AnomalyKind::G2Item, cycle, found);
            }
        }
    }

    fn report(
        &self,
        kind: AnomalyKind,
        cycle: Vec<(usize, usize, u8, Key)>,
        found: &mut Vec<Anomaly>,
    ) {
        let step = |&(from, _, kind, key): &(usize, usize, u8, Key)| {
            format!("T{from} -{} list {key}-> ", edge_name(kind))
        };
        let text: String = cycle.iter().map(step).collect();
        let txns = cycle.iter().map(|edge| edge.0).collect();
        found.push(Anomaly { kind, txns, text: format!("{text}T{}", cycle[0].0) });
    }

    /// Shortest path of at least one edge from `from` to `to` inside `component`.
    fn path(
        &self,
        from: usize,
        to: usize,
        kinds: u8,
        component: &[usize],
    ) -> Option<Vec<(usize, usize, u8, Key)>> {
        let members: BTreeSet<usize> = component.iter().copied().collect();
        let mut came_by: HashMap<usize, (usize, usize, u8, Key)> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &(next, kind, key) in &self.edges[at] {
                if kind & kinds == 0 || !members.contains(&next) || came_by.contains_key(&next) {
                    continue;
                }
                came_by.insert(next, (at, next, kind, key));
                if next == to {
                    let mut path = vec![came_by[&to]];
                    while path[path.len() - 1].0 != from {
                        path.push(came_by[&path[path.len() - 1].0]);
                    }
                    path.reverse();
                    return Some(path);
                }
                queue.push_back(next);
            }
        }
        None
    }

    /// Strongly connected components of two and more, over edges of `kinds`. Tarjan's algorithm
    /// with its recursion unrolled.
    fn components(&self, kinds: u8) -> Vec<Vec<usize>> {
        const NEW: usize = usize::MAX;
        let count = self.edges.len();
        let (mut index, mut low) = (vec![NEW; count], vec![0; count]);
        let (mut on_stack, mut stack) = (vec![false; count], Vec::new());
        let (mut next_index, mut components) = (0, Vec::new());
        for root in 0..count {
            if index[root] != NEW {
                continue;
            }
            let mut work = vec![(root, 0)];
            while let Some((at, edge)) = work.pop() {
                if edge == 0 {
                    (index[at], low[at]) = (next_index, next_index);
                    next_index += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                if let Some(&(next, kind, _)) = self.edges[at].get(edge) {
                    work.push((at, edge + 1));
                    if kind & kinds == 0 {
                        continue;
                    }
                    if index[next] == NEW {
                        work.push((next, 0));
                    } else if on_stack[next] {
                        low[at] = low[at].min(index[next]);
                    }
                    continue;
                }
                if let Some(&(parent, _)) = work.last() {
                    low[parent] = low[parent].min(low[at]);
                }
                if low[at] == index[at] {
                    let from = stack.iter().rposition(|&member| member == at);
                    let component = stack.split_off(from.expect("it is on the stack"));
                    component.iter().for_each(|&member| on_stack[member] = false);
                    if component.len() > 1 {
                        components.push(component);
                    }
                }
            }
        }
        components
    }
}

#[cfg(test)]
mod tests {
    use super::Op::{Append, Read, Undone};
    use super::*;

    fn txn(ops: &[Op]) -> Txn {
        Txn { ops: ops.to_vec(), committed: true }
    }

    fn aborted(ops: &[Op]) -> Txn {
        Txn { ops: ops.to_vec(), committed: false }
    }

    fn read(key: Key, list: &[Element]) -> Op {
        Read(key, list.to_vec())
    }

    #[track_caller]
    fn expect(history: &[Txn], kinds: &[AnomalyKind]) {
        let found = check(history);
        let mut found_kinds: Vec<AnomalyKind> = found.iter().map(|anomaly| anomaly.kind).collect();
        found_kinds.sort();
        assert_eq!(found_kinds, kinds, "{found:#?}");
    }

    #[test]
    fn serial_history_is_clean() {
        expect(&[], &[]);
        expect(
            &[
                txn(&[Append(1, 10), Append(2, 20), read(1, &[10])]),
                aborted(&[Append(1, 11), read(1, &[10, 11])]),
                txn(&[read(1, &[10]), Append(1, 12), Undone(1, 13), read(1, &[10, 12])]),
                txn(&[read(1, &[10, 12]), read(2, &[20]), read(3, &[])]),
            ],
            &[],
        );
    }

    #[test]
    fn g0_writes_in_opposite_orders() {
        expect(
            &[
                txn(&[Append(1, 10), Append(2, 20)]),
                txn(&[Append(1, 11), Append(2, 21)]),
                txn(&[read(1, &[10, 11])]),
                txn(&[read(2, &[21, 20])]),
            ],
            &[AnomalyKind::G0],
        );
    }

    #[test]
    fn g1a_read_of_an_aborted_or_undone_append() {
        expect(&[aborted(&[Append(1, 10)]), txn(&[read(1, &[10])])], &[AnomalyKind::G1a]);
        expect(&[txn(&[Undone(1, 10)]), txn(&[read(1, &[10])])], &[AnomalyKind::G1a]);
    }

    #[test]
    fn g1b_read_of_a_version_that_its_writer_overwrote() {
        let writer = txn(&[Append(1, 10), Append(1, 11)]);
        let unknown_end = txn(&[read(2, &[])]);
        expect(&[writer.clone(), txn(&[read(1, &[10])]), unknown_end], &[AnomalyKind::G1b]);
        // With the rest of the list known it is also a cycle: read before and after the writer.
        let reads = [txn(&[read(1, &[10])]), txn(&[read(1, &[10, 11])])];
        expect(&[vec![writer], reads.to_vec()].concat(), &[AnomalyKind::G1b, AnomalyKind::GSingle]);
    }

    #[test]
    fn g1c_each_reads_what_the_other_wrote() {
        expect(
            &[txn(&[Append(1, 10), read(2, &[20])]), txn(&[Append(2, 20), read(1, &[10])])],
            &[AnomalyKind::G1c],
        );
    }

    #[test]
    fn g_single_reads_before_and_after_one_transaction() {
        expect(
            &[
                txn(&[Append(1, 10), Append(2, 20)]),
                txn(&[read(1, &[]), read(2, &[20])]),
                txn(&[read(1, &[10]), read(2, &[20])]),
            ],
            &[AnomalyKind::GSingle],
        );
    }

    #[test]
    fn g_single_lost_update() {
        expect(
            &[
                txn(&[read(1, &[]), Append(1, 10)]),
                txn(&[read(1, &[]), Append(1, 11)]),
                txn(&[read(1, &[10, 11])]),
            ],
            &[AnomalyKind::GSingle],
        );
    }

    #[test]
    fn g2_item_write_skew() {
        expect(
            &[
                txn(&[read(1, &[]), read(2, &[]), Append(1, 10)]),
                txn(&[read(1, &[]), read(2, &[]), Append(2, 20)]),
                txn(&[read(1, &[10]), read(2, &[20])]),
            ],
            &[AnomalyKind::G2Item],
        );
    }

    #[test]
    fn g2_item_read_only_transaction_of_three() {
        expect(
            &[
                txn(&[read(1, &[]), read(2, &[]), Append(1, 10)]),
                txn(&[Append(2, 20)]),
                txn(&[read(1, &[]), read(2, &[20])]),
                txn(&[read(1, &[10]), read(2, &[20])]),
            ],
            &[AnomalyKind::G2Item],
        );
    }

    #[test]
    fn reads_that_no_order_explains() {
        let writers = [txn(&[Append(1, 10)]), txn(&[Append(1, 11)])];
        let with = |more: &[Txn]| [&writers, more].concat();
        expect(
            &with(&[txn(&[read(1, &[10])]), txn(&[read(1, &[11, 10])])]),
            &[AnomalyKind::Disorder],
        );
        expect(&with(&[txn(&[read(1, &[10, 10])])]), &[AnomalyKind::Garbage, AnomalyKind::Lost]);
        expect(&with(&[txn(&[read(1, &[10, 11, 12])])]), &[AnomalyKind::Garbage]);
        expect(&with(&[txn(&[read(2, &[10])])]), &[AnomalyKind::Garbage]);
        expect(&with(&[txn(&[read(1, &[10])])]), &[AnomalyKind::Lost]);
        expect(&[txn(&[Append(1, 10), read(1, &[])]), txn(&[])], &[AnomalyKind::Internal]);
        let changing = txn(&[read(1, &[]), read(1, &[10])]);
        let end = txn(&[read(1, &[10, 11])]);
        expect(&with(&[changing, end]), &[AnomalyKind::Internal, AnomalyKind::GSingle]);
    }

    #[test]
    fn two_separate_cycles_are_both_found() {
        let skew = |key: Key, element: Element| {
            [
                txn(&[read(key, &[]), read(key + 1, &[]), Append(key, element)]),
                txn(&[read(key, &[]), read(key + 1, &[]), Append(key + 1, element + 1)]),
                txn(&[read(key, &[element]), read(key + 1, &[element + 1])]),
            ]
        };
        expect(&[skew(1, 10), skew(5, 50)].concat(), &[AnomalyKind::G2Item, AnomalyKind::G2Item]);
    }
}
