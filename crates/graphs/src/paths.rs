//! Single-source shortest paths by delta-stepping (the GAP suite's `sssp`).
//!
//! Source: Meyer and Sanders, "Δ-stepping: a parallelizable shortest path algorithm", 2003, with
//! the suite's bins per worker and its fusion of small buckets (Zhang et al., CGO 2020): a worker
//! whose current bin stays small works it off at once instead of opening another phase.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use crate::graph::{Graph, Vertex};
use crate::phases::{Algorithm, Phase};

/// Distance of a vertex that has not been reached.
pub const FAR: u32 = u32::MAX;
/// Larger bins are divided among workers.
const FUSED_MAX: usize = 1000;
const GRAIN: usize = 64;
const WHOLE: &str = "no panic inside";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Clear,
    Relax,
    End,
}

/// Vertices to look at, by distance in steps of delta.
#[derive(Default)]
struct Bins(Vec<Vec<Vertex>>);

impl Bins {
    #[inline(always)]
    fn put(&mut self, bin: usize, vertex: Vertex) {
        if bin >= self.0.len() {
            self.0.resize_with(bin + 1, Vec::new);
        }
        self.0[bin].push(vertex);
    }

    fn first(&self, from: usize) -> Option<usize> {
        (from..self.0.len()).find(|&bin| !self.0[bin].is_empty())
    }
}

/// State of a search; reusable.
pub struct Paths {
    graph: Arc<Graph>,
    delta: u32,
    source: AtomicUsize,
    distances: Vec<AtomicU32>,
    frontier: RwLock<Vec<Vertex>>,
    bins: Vec<Mutex<Bins>>,
    bin: AtomicUsize,
    doing: Mutex<Doing>,
}

impl Paths {
    /// For up to `workers` workers.
    ///
    /// Panics: if `delta` is 0.
    pub fn new(graph: Arc<Graph>, workers: usize, delta: u32) -> Self {
        assert!(delta > 0, "bins have a width");
        Paths {
            delta,
            source: AtomicUsize::new(0),
            distances: (0..graph.vertices()).map(|_| AtomicU32::new(FAR)).collect(),
            frontier: RwLock::default(),
            bins: (0..workers).map(|_| Mutex::default()).collect(),
            bin: AtomicUsize::new(0),
            doing: Mutex::new(Doing::End),
            graph,
        }
    }

    /// The next run searches from `source`.
    pub fn restart(&self, source: Vertex) {
        self.source.store(source as usize, Relaxed);
        *self.doing.lock().expect(WHOLE) = Doing::End;
    }

    /// Distances by vertex; [`FAR`]: not reached.
    pub fn distances(&self) -> Vec<u32> {
        self.distances.iter().map(|distance| distance.load(Relaxed)).collect()
    }

    /// Lowers a distance to `there`; returns whether it was higher. A worker that works `ALONE`
    /// needs no atomic exchange, which would cost as much as everything else here.
    #[inline(always)]
    fn lower<const ALONE: bool>(cell: &AtomicU32, there: u32) -> bool {
        let mut before = cell.load(Relaxed);
        while there < before {
            if ALONE {
                cell.store(there, Relaxed);
                return true;
            }
            match cell.compare_exchange_weak(before, there, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => before = now,
            }
        }
        false
    }

    #[inline(always)]
    fn relax<const ALONE: bool>(&self, vertex: Vertex, bins: &mut Bins) {
        let here = self.distances[vertex as usize].load(Relaxed);
        for hop in self.graph.out().hops(vertex) {
            let there = here + hop.weight;
            if Self::lower::<ALONE>(&self.distances[hop.to as usize], there) {
                bins.put((there / self.delta) as usize, hop.to);
            }
        }
    }

    /// Relaxes a vertex if it still belongs to the current bin: nearer vertices have been relaxed
    /// before.
    #[inline(always)]
    fn relax_current<const ALONE: bool>(&self, vertex: Vertex, bin: usize, bins: &mut Bins) {
        if self.distances[vertex as usize].load(Relaxed) >= self.delta * bin as u32 {
            self.relax::<ALONE>(vertex, bins);
        }
    }

    fn relax_share<const ALONE: bool>(&self, worker: usize, items: Range<usize>) {
        let bin = self.bin.load(Relaxed);
        let mut bins = self.bins[worker].lock().expect(WHOLE);
        for &vertex in &self.frontier.read().expect(WHOLE)[items] {
            self.relax_current::<ALONE>(vertex, bin, &mut bins);
        }
        let mut fused = Vec::new();
        while let Some(own) = bins.0.get_mut(bin)
            && !own.is_empty()
            && own.len() < FUSED_MAX
        {
            std::mem::swap(own, &mut fused);
            fused.drain(..).for_each(|vertex| self.relax_current::<ALONE>(vertex, bin, &mut bins));
        }
    }

    /// Bins before the current one are empty: distances only grow from there.
    fn next_bin(&self) -> Option<Phase> {
        let from = self.bin.load(Relaxed);
        let firsts = self.bins.iter().filter_map(|bins| bins.lock().expect(WHOLE).first(from));
        let bin = firsts.min()?;
        self.bin.store(bin, Relaxed);
        let mut frontier = self.frontier.write().expect(WHOLE);
        frontier.clear();
        for bins in &self.bins {
            if let Some(own) = bins.lock().expect(WHOLE).0.get_mut(bin) {
                frontier.append(own);
            }
        }
        let share = frontier.len() / (8 * self.bins.len());
        Some(Phase { items: frontier.len(), grain: share.clamp(GRAIN, 16 * GRAIN) })
    }
}

impl Algorithm for Paths {
    fn work(&self, worker: usize, items: Range<usize>) {
        let doing = *self.doing.lock().expect(WHOLE);
        if doing == Doing::Clear {
            return items.for_each(|vertex| self.distances[vertex].store(FAR, Relaxed));
        }
        if self.bins.len() == 1 {
            self.relax_share::<true>(worker, items);
        } else {
            self.relax_share::<false>(worker, items);
        }
    }

    fn next_phase(&self) -> Option<Phase> {
        let mut doing = self.doing.lock().expect(WHOLE);
        match *doing {
            Doing::End => {
                *doing = Doing::Clear;
                return Some(Phase { items: self.graph.vertices(), grain: 16_384 });
            }
            Doing::Clear => {
                let source = self.source.load(Relaxed);
                self.distances[source].store(0, Relaxed);
                self.bin.store(0, Relaxed);
                self.bins[0].lock().expect(WHOLE).put(0, source as Vertex);
                *doing = Doing::Relax;
            }
            Doing::Relax => {}
        }
        let next = self.next_bin();
        if next.is_none() {
            *doing = Doing::End;
        }
        next
    }
}

/// Memory of the bare arm.
#[derive(Default)]
pub struct Bare {
    /// Distances by vertex; [`FAR`]: not reached.
    pub distances: Vec<u32>,
    bins: Bins,
}

impl Bare {
    /// The bare arm: the published algorithm for one thread, in plain memory.
    pub fn search(&mut self, graph: &Graph, source: Vertex, delta: u32) {
        self.distances.clear();
        self.distances.resize(graph.vertices(), FAR);
        self.distances[source as usize] = 0;
        self.bins.put(0, source);
        let mut bin = 0;
        while let Some(next) = self.bins.first(bin) {
            bin = next;
            let frontier = std::mem::take(&mut self.bins.0[bin]);
            for vertex in frontier {
                let here = self.distances[vertex as usize];
                if here < delta * bin as u32 {
                    continue;
                }
                for hop in graph.out().hops(vertex) {
                    let there = here + hop.weight;
                    if there < self.distances[hop.to as usize] {
                        self.distances[hop.to as usize] = there;
                        self.bins.put((there / delta) as usize, hop.to);
                    }
                }
            }
        }
    }
}

/// The slow twin: Dijkstra's algorithm with a heap.
pub fn twin(graph: &Graph, source: Vertex) -> Vec<u32> {
    let mut distances = vec![FAR; graph.vertices()];
    distances[source as usize] = 0;
    let mut heap = BinaryHeap::from([Reverse((0, source))]);
    while let Some(Reverse((distance, vertex))) = heap.pop() {
        if distance > distances[vertex as usize] {
            continue;
        }
        for hop in graph.out().hops(vertex) {
            let there = distance + hop.weight;
            if there < distances[hop.to as usize] {
                distances[hop.to as usize] = there;
                heap.push(Reverse((there, hop.to)));
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Edge;
    use crate::phases::on_threads;

    fn compare(graph: Graph) {
        let graph = Arc::new(graph);
        for delta in [1, 16, 1000] {
            let paths = Arc::new(Paths::new(Arc::clone(&graph), 3, delta));
            let mut plain = Bare::default();
            for source in graph.sources(4, 1) {
                let expected = twin(&graph, source);
                plain.search(&graph, source, delta);
                assert_eq!(plain.distances, expected, "bare from {source}, delta {delta}");
                for threads in [1, 3] {
                    paths.restart(source);
                    on_threads(&paths, threads);
                    let found = paths.distances();
                    assert_eq!(found, expected, "{threads} threads, {source}, delta {delta}");
                }
            }
        }
    }

    #[test]
    fn distances_are_dijkstras() {
        compare(Graph::kronecker(10, 8, 5));
        compare(Graph::kronecker(7, 1, 5));
        let ring = |at: u32| Edge { from: at, to: (at + 1) % 100, weight: at % 7 + 1 };
        compare(Graph::new(&(0..100).map(ring).collect::<Vec<_>>(), true));
    }
}
