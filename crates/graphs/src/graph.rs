//! Graphs in compressed form, from a Kronecker generator or from edge lists.
//!
//! Source: Beamer, Asanović and Patterson, "The GAP benchmark suite", arXiv 1508.03619; the
//! generator's probabilities are Graph500's.

use std::io::{BufRead, BufReader};
use std::path::Path;

use halcyon_base::rng::{Rng, splitmix64};

/// A vertex: counted from 0.
pub type Vertex = u32;

/// Largest weight that edges get.
pub const WEIGHT_MAX: u32 = 255;

/// An edge as it is read or generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// From where.
    pub from: Vertex,
    /// To where.
    pub to: Vertex,
    /// Length, at least 1.
    pub weight: u32,
}

/// An edge as seen from its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The vertex that the edge leads to.
    pub to: Vertex,
    /// Length of the edge.
    pub weight: u32,
}

/// The edges of a graph in one direction, by origin: `starts[v]..starts[v + 1]` are those of `v`.
#[derive(Clone, Debug, Default)]
pub struct Compressed {
    starts: Vec<usize>,
    /// Sorted within each vertex, without duplicates and loops.
    targets: Vec<Vertex>,
    hops: Vec<Hop>,
}

impl Compressed {
    /// Panics: if an edge's origin is not below `vertices`.
    fn new(vertices: usize, edges: impl Iterator<Item = Edge> + Clone) -> Self {
        let mut starts = vec![0usize; vertices + 2];
        for edge in edges.clone() {
            starts[edge.from as usize + 2] += 1;
        }
        for at in 2..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut hops = vec![Hop { to: 0, weight: 0 }; starts[vertices + 1]];
        for edge in edges {
            let slot = &mut starts[edge.from as usize + 1];
            hops[*slot] = Hop { to: edge.to, weight: edge.weight };
            *slot += 1;
        }
        starts.pop();
        Compressed::squeeze(&starts, hops)
    }

    /// Sorts each vertex's edges; of parallel ones the shortest stays, loops go.
    fn squeeze(starts: &[usize], mut hops: Vec<Hop>) -> Self {
        let mut squeezed = Compressed { starts: vec![0], targets: Vec::new(), hops: Vec::new() };
        for vertex in 0..starts.len() - 1 {
            let own = &mut hops[starts[vertex]..starts[vertex + 1]];
            own.sort_unstable_by_key(|hop| (hop.to, hop.weight));
            let first = squeezed.hops.len();
            for &hop in own.iter().filter(|hop| hop.to as usize != vertex) {
                let again = squeezed.hops[first..].last().is_some_and(|last| last.to == hop.to);
                if !again {
                    squeezed.hops.push(hop);
                }
            }
            squeezed.starts.push(squeezed.hops.len());
        }
        squeezed.targets = squeezed.hops.iter().map(|hop| hop.to).collect();
        squeezed
    }

    /// Neighbours of a vertex.
    #[inline(always)]
    pub fn of(&self, vertex: Vertex) -> &[Vertex] {
        &self.targets[self.starts[vertex as usize]..self.starts[vertex as usize + 1]]
    }

    /// Neighbours of a vertex, and how far they are.
    #[inline(always)]
    pub fn hops(&self, vertex: Vertex) -> &[Hop] {
        &self.hops[self.starts[vertex as usize]..self.starts[vertex as usize + 1]]
    }

    /// Number of neighbours.
    #[inline(always)]
    pub fn degree(&self, vertex: Vertex) -> usize {
        self.starts[vertex as usize + 1] - self.starts[vertex as usize]
    }
}

/// A graph.
#[derive(Clone, Debug)]
pub struct Graph {
    forward: Compressed,
    /// Edges by target; `None` if each edge exists in both directions.
    backward: Option<Compressed>,
}

impl Graph {
    /// The graph of `edges`; each leads both ways unless `directed`.
    pub fn new(edges: &[Edge], directed: bool) -> Self {
        let last = edges.iter().map(|edge| edge.from.max(edge.to)).max();
        let vertices = last.map_or(0, |last| last as usize + 1);
        let turned = |edge: &Edge| Edge { from: edge.to, to: edge.from, weight: edge.weight };
        let forward = edges.iter().copied();
        let backward = edges.iter().map(turned);
        if directed {
            let backward = Some(Compressed::new(vertices, backward));
            return Graph { forward: Compressed::new(vertices, forward), backward };
        }
        Graph { forward: Compressed::new(vertices, forward.chain(backward)), backward: None }
    }

    /// Graph500's Kronecker graph: 2^`scale` vertices, `degree` edges for each, both ways, with
    /// weights of 1 to [`WEIGHT_MAX`]. The same seed gives the same graph.
    pub fn kronecker(scale: u32, degree: usize, seed: u64) -> Self {
        const A: f64 = 0.57;
        const B: f64 = 0.19;
        const C: f64 = 0.19;
        let mut rng = Rng::new(seed);
        let mut names: Vec<Vertex> = (0..1 << scale).collect();
        rng.shuffle(&mut names);
        let mut edge = || {
            let (mut from, mut to) = (0, 0);
            for _ in 0..scale {
                let dice = rng.unit();
                let (down, right) =
                    (dice >= A + B, (A..A + B).contains(&dice) || dice >= A + B + C);
                from = from << 1 | usize::from(down);
                to = to << 1 | usize::from(right);
            }
            let weight = 1 + rng.below(u64::from(WEIGHT_MAX)) as u32;
            Edge { from: names[from], to: names[to], weight }
        };
        let edges: Vec<Edge> = (0..degree << scale).map(|_| edge()).collect();
        Graph::new(&edges, false)
    }

    /// Reads lines of `from to [weight]`; lines that start with `#` or `%` are comments. An edge
    /// without a weight gets one that follows from its ends.
    ///
    /// Errors: what the file system says, or the number of the first line that is no edge.
    pub fn read(path: &Path, directed: bool) -> Result<Self, String> {
        let file = std::fs::File::open(path).map_err(|error| format!("{path:?}: {error}"))?;
        let mut edges = Vec::new();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|error| format!("{path:?}: {error}"))?;
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '%']) {
                continue;
            }
            let edge = parse(line).ok_or(format!("{path:?}, line {}: no edge", number + 1))?;
            edges.push(edge);
        }
        Ok(Graph::new(&edges, directed))
    }

    /// Edges by origin.
    #[inline(always)]
    pub fn out(&self) -> &Compressed {
        &self.forward
    }

    /// Edges by target.
    #[inline(always)]
    pub fn incoming(&self) -> &Compressed {
        self.backward.as_ref().unwrap_or(&self.forward)
    }

    /// Number of vertices.
    pub fn vertices(&self) -> usize {
        self.forward.starts.len().saturating_sub(1)
    }

    /// Number of edges; one that leads both ways counts twice.
    pub fn edges(&self) -> usize {
        self.forward.targets.len()
    }

    /// `count` random vertices that have edges.
    ///
    /// Panics: if there are none.
    pub fn sources(&self, count: usize, seed: u64) -> Vec<Vertex> {
        assert!(self.edges() > 0, "a search needs an edge to start with");
        let mut rng = Rng::new(seed);
        let random = || rng.below(self.vertices() as u64) as Vertex;
        let sources = std::iter::repeat_with(random);
        sources.filter(|&vertex| self.forward.degree(vertex) > 0).take(count).collect()
    }
}

fn parse(line: &str) -> Option<Edge> {
    let mut words = line.split_whitespace();
    let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let weight = match words.next() {
        // Files of the suite may hold weights that are not whole.
        Some(word) => word.parse::<f64>().ok()?.max(1.0) as u32,
        None => {
            let mut ends =
                u64::from(Vertex::min(from, to)) << 32 | u64::from(Vertex::max(from, to));
            1 + (splitmix64(&mut ends) % u64::from(WEIGHT_MAX)) as u32
        }
    };
    words.next().is_none().then_some(Edge { from, to, weight })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: Vertex, to: Vertex, weight: u32) -> Edge {
        Edge { from, to, weight }
    }

    #[test]
    fn parallel_edges_and_loops_go() {
        let edges = [edge(0, 2, 9), edge(0, 2, 3), edge(1, 1, 1), edge(2, 0, 5), edge(0, 1, 4)];
        let graph = Graph::new(&edges, true);
        assert_eq!((graph.vertices(), graph.edges()), (3, 3));
        assert_eq!(graph.out().of(0), [1, 2]);
        assert_eq!(graph.out().hops(0)[1], Hop { to: 2, weight: 3 });
        assert_eq!(graph.incoming().of(0), [2]);
        assert_eq!(graph.out().degree(1), 0);
        let both = Graph::new(&edges, false);
        assert_eq!(both.out().of(1), [0]);
        assert_eq!(both.out().hops(2), [Hop { to: 0, weight: 3 }]);
    }

    #[test]
    fn kronecker_graphs_follow_from_their_seed() {
        let graph = Graph::kronecker(8, 16, 7);
        assert_eq!(graph.vertices(), 256);
        let same = Graph::kronecker(8, 16, 7);
        assert_eq!(graph.out().targets, same.out().targets);
        assert_ne!(graph.out().targets, Graph::kronecker(8, 16, 8).out().targets);
        for vertex in 0..256 {
            for hop in graph.out().hops(vertex) {
                let back = graph.out().hops(hop.to).iter().find(|back| back.to == vertex);
                assert_eq!(back.map(|back| back.weight), Some(hop.weight));
                assert!((1..=WEIGHT_MAX).contains(&hop.weight));
            }
        }
        let degrees = (0..256).map(|vertex| graph.out().degree(vertex));
        let (most, mean) = (degrees.max().unwrap(), graph.edges() / 256);
        assert!(most > 3 * mean, "few vertices have most edges: {most}, mean {mean}");
    }

    #[test]
    fn edge_lists_are_read_or_refused_by_line() {
        let path = std::env::temp_dir().join(format!("halcyon-{}.el", std::process::id()));
        std::fs::write(&path, "# from to\n0 1\n\n1 2 7\n").unwrap();
        let graph = Graph::read(&path, false).unwrap();
        assert_eq!((graph.vertices(), graph.edges()), (3, 4));
        assert_eq!(graph.out().hops(1)[1], Hop { to: 2, weight: 7 });
        std::fs::write(&path, "0 1\n1 x\n").unwrap();
        assert!(Graph::read(&path, false).unwrap_err().contains("line 2"));
        std::fs::remove_file(&path).unwrap();
        assert!(Graph::read(&path, false).is_err());
    }
}
