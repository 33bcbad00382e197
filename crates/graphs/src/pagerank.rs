//! PageRank: pulled, with each new score used at once (the GAP suite's `pr`).

use std::ops::Range;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::graph::{Graph, Vertex};
use crate::phases::{Algorithm, Phase};

const DAMPING: f32 = 0.85;
const ROUNDS_MAX: usize = 20;
/// A round that moves all scores together by less than this is the last.
const CHANGE_MIN: f64 = 1e-4;
const GRAIN: usize = 16_384;

/// State of a run; reusable.
pub struct PageRank {
    graph: Arc<Graph>,
    /// `f32` bits.
    scores: Vec<AtomicU32>,
    /// The share of its score that a vertex gives each of its targets; `f32` bits.
    shares: Vec<AtomicU32>,
    round: Mutex<Round>,
}

struct Round {
    number: usize,
    change: f64,
}

fn load(cell: &AtomicU32) -> f32 {
    f32::from_bits(cell.load(Relaxed))
}

impl PageRank {
    /// No scores yet.
    pub fn new(graph: Arc<Graph>) -> Self {
        let zeros = || (0..graph.vertices()).map(|_| AtomicU32::new(0)).collect();
        let (scores, shares) = (zeros(), zeros());
        PageRank { graph, scores, shares, round: Mutex::new(Round { number: 0, change: 0.0 }) }
    }

    /// Forgets the scores.
    pub fn restart(&self) {
        *self.round.lock().expect("no panic inside") = Round { number: 0, change: 0.0 };
    }

    /// Scores by vertex.
    pub fn scores(&self) -> Vec<f32> {
        self.scores.iter().map(load).collect()
    }

    fn share(graph: &Graph, vertex: usize, score: f32) -> f32 {
        score / graph.out().degree(vertex as Vertex).max(1) as f32
    }

    /// One round for some vertices; returns how far their scores moved.
    fn pull(&self, vertices: Range<usize>) -> f64 {
        let graph = &*self.graph;
        let base = (1.0 - DAMPING) / graph.vertices() as f32;
        let mut change = 0.0;
        for vertex in vertices {
            let sources = graph.incoming().of(vertex as Vertex);
            let sum: f32 = sources.iter().map(|&from| load(&self.shares[from as usize])).sum();
            let score = base + DAMPING * sum;
            change += f64::from((score - load(&self.scores[vertex])).abs());
            self.scores[vertex].store(score.to_bits(), Relaxed);
            self.shares[vertex].store(Self::share(graph, vertex, score).to_bits(), Relaxed);
        }
        change
    }
}

impl Algorithm for PageRank {
    fn work(&self, _worker: usize, items: Range<usize>) {
        // Read before the work: the lock protects two numbers, not the round.
        let first = self.round.lock().expect("no panic inside").number == 1;
        if first {
            let score = 1.0 / self.graph.vertices() as f32;
            for vertex in items {
                self.scores[vertex].store(score.to_bits(), Relaxed);
                let share = Self::share(&self.graph, vertex, score);
                self.shares[vertex].store(share.to_bits(), Relaxed);
            }
            return;
        }
        let change = self.pull(items);
        self.round.lock().expect("no panic inside").change += change;
    }

    fn next_phase(&self) -> Option<Phase> {
        let mut round = self.round.lock().expect("no panic inside");
        let settled = round.number >= 2 && round.change < CHANGE_MIN;
        if settled || round.number > ROUNDS_MAX {
            return None;
        }
        *round = Round { number: round.number + 1, change: 0.0 };
        Some(Phase { items: self.graph.vertices(), grain: GRAIN })
    }
}

/// The bare arm: the published algorithm for one thread, in plain memory.
pub fn bare(graph: &Graph, scores: &mut Vec<f32>, shares: &mut Vec<f32>) {
    let vertices = graph.vertices();
    let base = (1.0 - DAMPING) / vertices as f32;
    scores.clear();
    scores.resize(vertices, 1.0 / vertices as f32);
    shares.clear();
    shares.extend((0..vertices).map(|vertex| PageRank::share(graph, vertex, scores[vertex])));
    for _ in 0..ROUNDS_MAX {
        let mut change = 0.0;
        for vertex in 0..vertices {
            let sources = graph.incoming().of(vertex as Vertex);
            let sum: f32 = sources.iter().map(|&from| shares[from as usize]).sum();
            let score = base + DAMPING * sum;
            change += f64::from((score - scores[vertex]).abs());
            scores[vertex] = score;
            shares[vertex] = PageRank::share(graph, vertex, score);
        }
        if change < CHANGE_MIN {
            break;
        }
    }
}

/// Checks scores as the suite does: one more round, pushed along the edges in double precision
/// (another direction, another precision), must hardly move them.
pub fn verify(graph: &Graph, scores: &[f32]) -> Result<(), String> {
    let base = f64::from((1.0 - DAMPING) / graph.vertices() as f32);
    let mut next = vec![base; graph.vertices()];
    for (from, score) in scores.iter().enumerate() {
        let targets = graph.out().of(from as Vertex);
        let share = f64::from(DAMPING * score) / targets.len().max(1) as f64;
        targets.iter().for_each(|&to| next[to as usize] += share);
    }
    let change: f64 = next.iter().zip(scores).map(|(a, &b)| (a - f64::from(b)).abs()).sum();
    // Single precision loses up to 1e-7 of each score, whose sum is at most 1.
    if change < 2.0 * CHANGE_MIN { Ok(()) } else { Err(format!("another round moves {change}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::on_threads;

    #[test]
    fn scores_of_threads_and_of_the_bare_arm_are_verified() {
        let graph = Arc::new(Graph::kronecker(10, 8, 3));
        let (mut scores, mut shares) = (Vec::new(), Vec::new());
        bare(&graph, &mut scores, &mut shares);
        verify(&graph, &scores).unwrap();
        let rank = Arc::new(PageRank::new(Arc::clone(&graph)));
        for threads in [1, 3] {
            rank.restart();
            on_threads(&rank, threads);
            verify(&graph, &rank.scores()).unwrap();
        }
        scores[5] += 0.01;
        assert!(verify(&graph, &scores).is_err(), "a wrong score is seen");
    }
}
