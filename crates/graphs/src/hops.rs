//! Hop distance: breadth-first search that changes direction (the GAP suite's `bfs`).
//!
//! Source: Beamer, Asanović and Patterson, "Direction-optimizing breadth-first search", SC 2012.
//! Small frontiers are pushed along their edges; a large one is pulled: vertices not yet reached
//! look for a neighbour in it, and most find one soon.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use crate::graph::{Graph, Vertex};
use crate::phases::{Algorithm, Phase};

/// The search pulls once the frontier has more than one in this many of the edges not looked at
/// yet.
const ALPHA: usize = 15;
/// The search pushes again once the frontier shrinks and has less than one in this many vertices.
const BETA: usize = 18;
const GRAIN: usize = 1024;

/// The next step of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Clear,
    Push,
    Mark,
    Pull,
    List,
    End,
}

struct Control {
    doing: Doing,
    depth: i32,
    /// Edges of vertices that are not reached.
    edges_left: usize,
    /// Edges of the frontier.
    scout: usize,
    /// Vertices reached in the last step.
    awake: usize,
}

/// State of a search; reusable.
pub struct Hops {
    graph: Arc<Graph>,
    source: AtomicUsize,
    /// Distance of each vertex. Negative if the vertex has not been reached: then minus its degree
    /// (or -1 if that is 0), which saves a look at the graph.
    depths: Vec<AtomicI32>,
    frontier: RwLock<Vec<Vertex>>,
    reached: Vec<Mutex<Vec<Vertex>>>,
    /// Frontier and next frontier as bits, by turns.
    marks: [Vec<AtomicU64>; 2],
    front: AtomicUsize,
    scout: AtomicUsize,
    awake: AtomicUsize,
    control: Mutex<Control>,
}

const WHOLE: &str = "no panic inside";

impl Hops {
    /// For up to `workers` workers.
    pub fn new(graph: Arc<Graph>, workers: usize) -> Self {
        let words = graph.vertices().div_ceil(64);
        let marks = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Hops {
            source: AtomicUsize::new(0),
            depths: (0..graph.vertices()).map(|_| AtomicI32::new(-1)).collect(),
            frontier: RwLock::default(),
            reached: (0..workers).map(|_| Mutex::default()).collect(),
            marks: [marks(), marks()],
            front: AtomicUsize::new(0),
            scout: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            control: Mutex::new(Control::new()),
            graph,
        }
    }

    /// The next run searches from `source`.
    pub fn restart(&self, source: Vertex) {
        self.source.store(source as usize, Relaxed);
        *self.control.lock().expect(WHOLE) = Control::new();
    }

    /// Distances by vertex; `None`: not reached.
    pub fn distances(&self) -> Vec<Option<u32>> {
        self.depths.iter().map(|depth| u32::try_from(depth.load(Relaxed)).ok()).collect()
    }

    fn unreached(&self, vertex: usize) -> i32 {
        -(self.graph.out().degree(vertex as Vertex).max(1) as i32)
    }

    fn push(&self, worker: usize, items: Range<usize>, depth: i32) {
        let frontier = self.frontier.read().expect(WHOLE);
        let mut reached = self.reached[worker].lock().expect(WHOLE);
        let mut scout = 0;
        for &vertex in &frontier[items] {
            for &to in self.graph.out().of(vertex) {
                let cell = &self.depths[to as usize];
                let before = cell.load(Relaxed);
                let claim = || cell.compare_exchange(before, depth, Relaxed, Relaxed).is_ok();
                if before < 0 && claim() {
                    reached.push(to);
                    scout += before.unsigned_abs() as usize;
                }
            }
        }
        self.scout.fetch_add(scout, Relaxed);
    }

    fn pull(&self, items: Range<usize>, depth: i32) {
        let front = self.front.load(Relaxed);
        let (front, next) = (&self.marks[front], &self.marks[1 - front]);
        let mut awake = 0;
        // Whole words, so that no other worker writes to them.
        for word in items {
            let mut marks = 0;
            for vertex in word * 64..self.graph.vertices().min(word * 64 + 64) {
                if self.depths[vertex].load(Relaxed) >= 0 {
                    continue;
                }
                let mut sources = self.graph.incoming().of(vertex as Vertex).iter();
                if sources.any(|&from| is_marked(front, from)) {
                    self.depths[vertex].store(depth, Relaxed);
                    marks |= 1 << (vertex % 64);
                    awake += 1;
                }
            }
            next[word].store(marks, Relaxed);
        }
        self.awake.fetch_add(awake, Relaxed);
    }

    fn mark(&self, items: Range<usize>) {
        let marks = &self.marks[self.front.load(Relaxed)];
        for &vertex in &self.frontier.read().expect(WHOLE)[items] {
            marks[vertex as usize / 64].fetch_or(1 << (vertex % 64), Relaxed);
        }
    }

    fn list(&self, worker: usize, items: Range<usize>) {
        let marks = &self.marks[self.front.load(Relaxed)];
        let mut reached = self.reached[worker].lock().expect(WHOLE);
        for word in items {
            let mut bits = marks[word].load(Relaxed);
            while bits != 0 {
                reached.push((word * 64) as Vertex + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// Makes the vertices that the workers have reached the new frontier.
    fn slide(&self) -> usize {
        let mut frontier = self.frontier.write().expect(WHOLE);
        frontier.clear();
        for reached in &self.reached {
            frontier.append(&mut reached.lock().expect(WHOLE));
        }
        frontier.len()
    }

    fn words(&self) -> Phase {
        Phase { items: self.marks[0].len(), grain: GRAIN / 64 }
    }

    fn frontier_phase(&self) -> Phase {
        let items = self.frontier.read().expect(WHOLE).len();
        // Small frontiers are divided as well: some vertices have most of the edges.
        Phase { items, grain: (items / (8 * self.reached.len())).clamp(64, GRAIN) }
    }

    /// The frontier is a list: pushes it, or marks its vertices for pulling.
    fn push_or_mark(&self, control: &mut MutexGuard<'_, Control>) -> Option<Phase> {
        if self.frontier.read().expect(WHOLE).is_empty() {
            control.doing = Doing::End;
            return None;
        }
        if control.scout > control.edges_left / ALPHA {
            let front = &self.marks[self.front.load(Relaxed)];
            front.iter().for_each(|word| word.store(0, Relaxed));
            control.doing = Doing::Mark;
            control.awake = self.frontier.read().expect(WHOLE).len();
        } else {
            control.edges_left -= control.scout;
            control.depth += 1;
            control.doing = Doing::Push;
            self.scout.store(0, Relaxed);
        }
        Some(self.frontier_phase())
    }

    fn start_pull(&self, control: &mut MutexGuard<'_, Control>) -> Option<Phase> {
        control.depth += 1;
        control.doing = Doing::Pull;
        self.awake.store(0, Relaxed);
        Some(self.words())
    }
}

fn is_marked(marks: &[AtomicU64], vertex: Vertex) -> bool {
    marks[vertex as usize / 64].load(Relaxed) >> (vertex % 64) & 1 == 1
}

impl Control {
    fn new() -> Self {
        Control { doing: Doing::End, depth: 0, edges_left: 0, scout: 0, awake: 0 }
    }
}

impl Algorithm for Hops {
    fn work(&self, worker: usize, items: Range<usize>) {
        let (doing, depth) = {
            let control = self.control.lock().expect(WHOLE);
            (control.doing, control.depth)
        };
        match doing {
            Doing::Clear => items.for_each(|vertex| {
                self.depths[vertex].store(self.unreached(vertex), Relaxed);
            }),
            Doing::Push => self.push(worker, items, depth),
            Doing::Mark => self.mark(items),
            Doing::Pull => self.pull(items, depth),
            Doing::List => self.list(worker, items),
            Doing::End => unreachable!("no phase is open"),
        }
    }

    fn next_phase(&self) -> Option<Phase> {
        let mut control = self.control.lock().expect(WHOLE);
        let source = self.source.load(Relaxed);
        match control.doing {
            Doing::End => {
                *control = Control { doing: Doing::Clear, ..Control::new() };
                Some(Phase { items: self.graph.vertices(), grain: 16 * GRAIN })
            }
            Doing::Clear => {
                self.depths[source].store(0, Relaxed);
                *self.frontier.write().expect(WHOLE) = vec![source as Vertex];
                control.edges_left = self.graph.edges();
                control.scout = self.graph.out().degree(source as Vertex);
                self.push_or_mark(&mut control)
            }
            Doing::Push => {
                self.slide();
                control.scout = self.scout.load(Relaxed);
                control.scout = control.scout.min(control.edges_left);
                self.push_or_mark(&mut control)
            }
            Doing::Mark => self.start_pull(&mut control),
            Doing::Pull => {
                let before = std::mem::replace(&mut control.awake, self.awake.load(Relaxed));
                self.front.fetch_xor(1, Relaxed);
                let large = control.awake > self.graph.vertices() / BETA;
                if control.awake > 0 && (control.awake >= before || large) {
                    return self.start_pull(&mut control);
                }
                control.doing = Doing::List;
                Some(self.words())
            }
            Doing::List => {
                self.slide();
                control.scout = 1;
                self.push_or_mark(&mut control)
            }
        }
    }
}

/// Memory of the bare arm.
#[derive(Default)]
pub struct Bare {
    /// As in [`Hops`].
    depths: Vec<i32>,
    frontier: Vec<Vertex>,
    next: Vec<Vertex>,
    front: Vec<u64>,
    marks: Vec<u64>,
}

impl Bare {
    /// As [`Hops::distances`].
    pub fn distances(&self) -> Vec<Option<u32>> {
        self.depths.iter().map(|&depth| u32::try_from(depth).ok()).collect()
    }

    /// The bare arm: the published algorithm for one thread, in plain memory.
    pub fn search(&mut self, graph: &Graph, source: Vertex) {
        let vertices = graph.vertices();
        let unreached = |vertex| -(graph.out().degree(vertex as Vertex).max(1) as i32);
        self.depths.clear();
        self.depths.extend((0..vertices).map(unreached));
        self.depths[source as usize] = 0;
        self.frontier.clear();
        self.frontier.push(source);
        let (mut edges_left, mut scout) = (graph.edges(), graph.out().degree(source));
        let mut depth = 0;
        while !self.frontier.is_empty() {
            if scout > edges_left / ALPHA {
                self.pull_while_large(graph, &mut depth);
                scout = 1;
            } else {
                edges_left -= scout.min(edges_left);
                depth += 1;
                scout = self.push(graph, depth);
            }
        }
    }

    fn push(&mut self, graph: &Graph, depth: i32) -> usize {
        let mut scout = 0;
        self.next.clear();
        for &vertex in &self.frontier {
            for &to in graph.out().of(vertex) {
                let before = self.depths[to as usize];
                if before < 0 {
                    self.depths[to as usize] = depth;
                    self.next.push(to);
                    scout += before.unsigned_abs() as usize;
                }
            }
        }
        std::mem::swap(&mut self.frontier, &mut self.next);
        scout
    }

    fn pull_while_large(&mut self, graph: &Graph, depth: &mut i32) {
        let words = graph.vertices().div_ceil(64);
        self.front.clear();
        self.front.resize(words, 0);
        self.frontier.iter().for_each(|&v| self.front[v as usize / 64] |= 1 << (v % 64));
        let mut awake = self.frontier.len();
        loop {
            let before = awake;
            *depth += 1;
            self.marks.clear();
            self.marks.resize(words, 0);
            awake = 0;
            for vertex in 0..graph.vertices() {
                if self.depths[vertex] >= 0 {
                    continue;
                }
                let mut sources = graph.incoming().of(vertex as Vertex).iter();
                if sources.any(|&from| self.front[from as usize / 64] >> (from % 64) & 1 == 1) {
                    self.depths[vertex] = *depth;
                    self.marks[vertex / 64] |= 1 << (vertex % 64);
                    awake += 1;
                }
            }
            std::mem::swap(&mut self.front, &mut self.marks);
            if awake == 0 || (awake < before && awake <= graph.vertices() / BETA) {
                break;
            }
        }
        self.frontier.clear();
        for (word, &marks) in self.front.iter().enumerate() {
            let mut bits = marks;
            while bits != 0 {
                self.frontier.push((word * 64) as Vertex + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// The slow twin: a queue.
pub fn twin(graph: &Graph, source: Vertex) -> Vec<Option<u32>> {
    let mut depths = vec![None; graph.vertices()];
    depths[source as usize] = Some(0);
    let mut queue = VecDeque::from([(source, 0)]);
    while let Some((vertex, depth)) = queue.pop_front() {
        for &to in graph.out().of(vertex) {
            if depths[to as usize].is_none() {
                depths[to as usize] = Some(depth + 1);
                queue.push_back((to, depth + 1));
            }
        }
    }
    depths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Edge;
    use crate::phases::on_threads;

    fn compare(graph: Graph) {
        let graph = Arc::new(graph);
        let hops = Arc::new(Hops::new(Arc::clone(&graph), 3));
        let mut plain = Bare::default();
        for source in graph.sources(8, 1) {
            let expected = twin(&graph, source);
            plain.search(&graph, source);
            assert_eq!(plain.distances(), expected, "bare from {source}");
            for threads in [1, 3] {
                hops.restart(source);
                on_threads(&hops, threads);
                assert_eq!(hops.distances(), expected, "{threads} threads from {source}");
            }
        }
    }

    #[test]
    fn distances_are_those_of_a_queue() {
        compare(Graph::kronecker(10, 8, 5));
        compare(Graph::kronecker(7, 1, 5));
        let ring = |at: u32| Edge { from: at, to: (at + 1) % 100, weight: 1 };
        compare(Graph::new(&(0..100).map(ring).collect::<Vec<_>>(), true));
    }
}
