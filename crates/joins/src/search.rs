//! The search for an order: which relations of a region are joined first. Numbers alone; no plan, no expression.
//!
//! Words: a *set* is a number whose bits are relations. A *class* is a list of values, of different relations, that
//! the region's equalities make equal. A relation is *dependent* if it is the right side of a semi-join or an
//! anti-join: it joins a set that has all relations that its conditions name, as the right side, and adds neither
//! rows nor columns.
//!
//! How many rows a set has does not depend on the order in which it is joined ([`Graph::rows`]): the product of its
//! relations' rows, divided for each class by the numbers of different values of all members but the one with fewest
//! (Selinger et al. 1979, System R). Equalities by which the same two relations meet in several columns are no longer
//! independent once their product says that a row meets less than one: then the rows of the smaller relation say how
//! many combinations there are.
//!
//! Up to [`EXHAUSTIVE`] relations every order without products of unconnected sets is looked at (dynamic programming
//! over connected sets, Moerkotte and Neumann 2006); above, the pair that costs least is joined, again and again
//! (greedy operator ordering, Fegaras 1998).
//!
//! Invariant, checked by `no_order_is_cheaper_than_the_one_found`: up to that number no tree costs less.

/// Relations up to which every order is looked at.
pub(crate) const EXHAUSTIVE: usize = 12;
/// Relations that a region may have for its order to be chosen.
pub(crate) const RELATIONS_MOST: usize = 64;

/// A set of relations.
pub(crate) type Set = u64;

/// The set of one relation.
pub(crate) fn only(relation: usize) -> Set {
    1 << relation
}

/// The relations of a set, ascending.
pub(crate) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..64).filter(move |relation| set & (1 << relation) != 0)
}

/// How a dependent relation acts on the rows that it is joined to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dependent {
    /// The relations that its conditions name.
    pub(crate) needs: Set,
    /// The share of rows that it keeps.
    pub(crate) keeps: f64,
    /// Whether it is joined by equalities.
    pub(crate) has_key: bool,
}

/// A relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Relation {
    /// Rows, at least one.
    pub(crate) rows: f64,
    /// Whether it is the right side of a semi-join or anti-join.
    pub(crate) dependent: Option<Dependent>,
}

/// A value that is equal to others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Whose value it is.
    pub(crate) relation: usize,
    /// How many different ones there are, at least one.
    pub(crate) distinct: f64,
}

/// A condition over several relations that is no equality of a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    /// The relations that it names.
    pub(crate) set: Set,
    /// The share of rows that it keeps.
    pub(crate) keeps: f64,
}

/// A region in numbers.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// The relations, at most [`RELATIONS_MOST`].
    pub(crate) relations: Vec<Relation>,
    /// Values that are equal.
    pub(crate) classes: Vec<Vec<Member>>,
    /// Other conditions.
    pub(crate) filters: Vec<Filter>,
    /// Pairs of relations that meet in several classes, and by what factor the classes together say too few rows.
    pairs: Vec<(Set, f64)>,
}

/// An order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    /// A relation as it is.
    Leaf(usize),
    /// A join; the hash table is made of the left side.
    Join(Box<Tree>, Box<Tree>),
}

impl Tree {
    /// The relations of a tree.
    pub(crate) fn set(&self) -> Set {
        match self {
            Tree::Leaf(relation) => only(*relation),
            Tree::Join(left, right) => left.set() | right.set(),
        }
    }
}

/// What a join costs: a row in the hash table, a row that looks there, a row that comes out, and a pair of rows
/// that are compared without a hash table, in units of the second.
const BUILD: f64 = 2.0;
const PROBE: f64 = 1.0;
const OUT: f64 = 1.0;
const PAIR: f64 = 0.5;

impl Graph {
    /// A region.
    pub(crate) fn new(
        relations: Vec<Relation>,
        classes: Vec<Vec<Member>>,
        filters: Vec<Filter>,
    ) -> Self {
        let mut graph = Graph { relations, classes, filters, pairs: Vec::new() };
        graph.pairs = graph.pairs();
        graph
    }

    /// All relations.
    pub(crate) fn all(&self) -> Set {
        (0..self.relations.len()).map(only).fold(0, |set, one| set | one)
    }

    /// Rows of a set that is joined.
    pub(crate) fn rows(&self, set: Set) -> f64 {
        let mut rows = 1.0;
        for relation in members(set) {
            let relation = &self.relations[relation];
            rows *= relation.dependent.map_or(relation.rows, |dependent| dependent.keeps);
        }
        for class in &self.classes {
            let (mut product, mut least) = (1.0, f64::INFINITY);
            for member in class.iter().filter(|member| set & only(member.relation) != 0) {
                product *= member.distinct;
                least = least.min(member.distinct);
            }
            if least.is_finite() {
                rows *= least / product;
            }
        }
        for filter in self.filters.iter().filter(|filter| filter.set & !set == 0) {
            rows *= filter.keeps;
        }
        for (_, too_few) in self.pairs.iter().filter(|(pair, _)| pair & !set == 0) {
            rows *= too_few;
        }
        rows.max(1e-3)
    }

    fn pairs(&self) -> Vec<(Set, f64)> {
        let mut pairs = Vec::new();
        let distinct = |class: &[Member], relation: usize| {
            let member = class.iter().find(|member| member.relation == relation);
            member.map(|member| member.distinct)
        };
        for left in 0..self.relations.len() {
            for right in left + 1..self.relations.len() {
                let (mut met, mut product) = (0, 1.0);
                let (mut of_left, mut of_right) = (1.0, 1.0);
                for class in &self.classes {
                    let (Some(l), Some(r)) = (distinct(class, left), distinct(class, right)) else {
                        continue;
                    };
                    met += 1;
                    product *= f64::max(l, r);
                    of_left *= l;
                    of_right *= r;
                }
                let l = f64::min(of_left, self.relations[left].rows.max(1.0));
                let r = f64::min(of_right, self.relations[right].rows.max(1.0));
                let combinations = f64::min(l, r);
                if met > 1 && product > combinations {
                    pairs.push((only(left) | only(right), product / combinations));
                }
            }
        }
        pairs
    }

    fn is_dependent(&self, set: Set) -> Option<Dependent> {
        match set.count_ones() {
            1 => self.relations[set.trailing_zeros() as usize].dependent,
            _ => None,
        }
    }

    /// Whether the relations of two sets are compared by equality.
    fn have_key(&self, left: Set, right: Set) -> bool {
        if let Some(dependent) = self.is_dependent(left).or(self.is_dependent(right)) {
            return dependent.has_key;
        }
        self.classes.iter().any(|class| {
            let meets = |set: Set| class.iter().any(|member| set & only(member.relation) != 0);
            meets(left) && meets(right)
        })
    }

    /// Whether two sets may be joined, the right one being the dependent one if there is one.
    fn may_join(&self, left: Set, right: Set) -> bool {
        if self.is_dependent(left).is_some() {
            return false;
        }
        match self.is_dependent(right) {
            Some(dependent) => dependent.needs & !left == 0,
            None => true,
        }
    }

    /// What one join costs, and whether the hash table is rather made of the second set.
    pub(crate) fn cost(&self, left: Set, right: Set, rows: (f64, f64), out: f64) -> (f64, bool) {
        let (l, r) = rows;
        let rows_of = |set: Set, rows: f64| match self.is_dependent(set) {
            Some(_) => self.relations[set.trailing_zeros() as usize].rows,
            None => rows,
        };
        let (l, r) = (rows_of(left, l), rows_of(right, r));
        if !self.have_key(left, right) {
            return (l * r * PAIR + out * OUT, r < l);
        }
        let (this, that) = (BUILD * l + PROBE * r, BUILD * r + PROBE * l);
        (this.min(that) + out * OUT, that < this)
    }

    /// For each relation those that a condition connects it with.
    fn neighbours(&self) -> Vec<Set> {
        let mut neighbours = vec![0; self.relations.len()];
        let mut connect = |set: Set| {
            for relation in members(set) {
                neighbours[relation] |= set & !only(relation);
            }
        };
        for class in &self.classes {
            connect(class.iter().map(|member| only(member.relation)).fold(0, |set, one| set | one));
        }
        for filter in &self.filters {
            connect(filter.set);
        }
        for (number, relation) in self.relations.iter().enumerate() {
            if let Some(dependent) = relation.dependent {
                connect(dependent.needs | only(number));
            }
        }
        neighbours
    }

    /// The cheapest order that is found; `None` for a region that is too large or has no order.
    pub(crate) fn order(&self) -> Option<Tree> {
        match self.relations.len() {
            0 => None,
            1 => Some(Tree::Leaf(0)),
            count if count > RELATIONS_MOST => None,
            count if count <= EXHAUSTIVE => self.exhaustive().or_else(|| self.greedy()),
            _ => self.greedy(),
        }
    }

    /// Every order without products of unconnected sets; `None` if there is no such order.
    fn exhaustive(&self) -> Option<Tree> {
        let neighbours = self.neighbours();
        let reach = |set: Set| members(set).fold(0, |reached, one| reached | neighbours[one]);
        let all = self.all();
        // By set: cost, rows, and the left side of the last join.
        let mut best: Vec<Option<Best>> = vec![None; (all + 1) as usize];
        for relation in 0..self.relations.len() {
            let set = only(relation);
            best[set as usize] = Some(Best { cost: 0.0, rows: self.rows(set), left: 0 });
        }
        for set in 3..=all {
            if set.count_ones() < 2 {
                continue;
            }
            let mut rows = None;
            let mut found: Option<Best> = None;
            // Each split once: the left side is the one with the lowest relation.
            let lowest = set & set.wrapping_neg();
            let others = set & !lowest;
            let mut part = others;
            loop {
                part = part.wrapping_sub(1) & others;
                let (left, right) = (lowest | part, others & !part);
                if let (Some(l), Some(r)) = (best[left as usize], best[right as usize])
                    && reach(left) & right != 0
                    && (self.may_join(left, right) || self.may_join(right, left))
                {
                    let out = *rows.get_or_insert_with(|| self.rows(set));
                    let (cost, _) = self.cost(left, right, (l.rows, r.rows), out);
                    let cost = l.cost + r.cost + cost;
                    if found.is_none_or(|found| cost < found.cost) {
                        found = Some(Best { cost, rows: out, left });
                    }
                }
                if part == 0 {
                    break;
                }
            }
            best[set as usize] = found;
        }
        best[all as usize].map(|_| self.tree(&best, all))
    }

    fn tree(&self, best: &[Option<Best>], set: Set) -> Tree {
        let Some(found) = best[set as usize].filter(|found| found.left != 0) else {
            return Tree::Leaf(set.trailing_zeros() as usize);
        };
        let (left, right) = (found.left, set & !found.left);
        let rows = |set: Set| best[set as usize].map_or(1.0, |best| best.rows);
        self.joined(
            (self.tree(best, left), rows(left)),
            (self.tree(best, right), rows(right)),
            found.rows,
        )
    }

    /// Two trees joined, the hash table being made of the side for which it costs less. A dependent relation is
    /// always the right side.
    fn joined(&self, left: (Tree, f64), right: (Tree, f64), out: f64) -> Tree {
        let (l, r) = (left.0.set(), right.0.set());
        let swapped = match (self.is_dependent(l), self.is_dependent(r)) {
            (Some(_), _) => true,
            (_, Some(_)) => false,
            _ => self.cost(l, r, (left.1, right.1), out).1,
        };
        let (left, right) = if swapped { (right.0, left.0) } else { (left.0, right.0) };
        Tree::Join(Box::new(left), Box::new(right))
    }

    /// The pair that costs least is joined, until one tree is left.
    fn greedy(&self) -> Option<Tree> {
        let neighbours = self.neighbours();
        let reach = |set: Set| members(set).fold(0, |reached, one| reached | neighbours[one]);
        let leaf = |relation| (Tree::Leaf(relation), self.rows(only(relation)));
        let mut trees: Vec<(Tree, f64)> = (0..self.relations.len()).map(leaf).collect();
        while trees.len() > 1 {
            let mut best: Option<(bool, f64, usize, usize, f64)> = None;
            for left in 0..trees.len() {
                let l = trees[left].0.set();
                for right in left + 1..trees.len() {
                    let r = trees[right].0.set();
                    if !self.may_join(l, r) && !self.may_join(r, l) {
                        continue;
                    }
                    let is_product = reach(l) & r == 0;
                    let out = self.rows(l | r);
                    let (cost, _) = self.cost(l, r, (trees[left].1, trees[right].1), out);
                    let is_better = best
                        .is_none_or(|(product, least, ..)| (is_product, cost) < (product, least));
                    if is_better {
                        best = Some((is_product, cost, left, right, out));
                    }
                }
            }
            let (_, _, left, right, out) = best?;
            let second = trees.swap_remove(right);
            let first = trees.swap_remove(left);
            trees.push((self.joined(first, second, out), out));
        }
        trees.pop().map(|(tree, _)| tree)
    }
}

#[derive(Clone, Copy)]
struct Best {
    cost: f64,
    rows: f64,
    /// 0: a relation.
    left: Set,
}

#[cfg(test)]
mod tests;
