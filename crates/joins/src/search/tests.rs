use halcyon_base::rng::Rng;

use super::*;

fn relation(rows: f64) -> Relation {
    Relation { rows, dependent: None }
}

fn class(members: &[(usize, f64)]) -> Vec<Member> {
    members.iter().map(|&(relation, distinct)| Member { relation, distinct }).collect()
}

/// What a tree costs. `None` if it joins a dependent relation where that cannot be.
fn cost_of(graph: &Graph, tree: &Tree) -> Option<f64> {
    let Tree::Join(left, right) = tree else { return Some(0.0) };
    let (l, r) = (left.set(), right.set());
    if !graph.may_join(l, r) && !graph.may_join(r, l) {
        return None;
    }
    let (of_left, of_right) = (cost_of(graph, left)?, cost_of(graph, right)?);
    let (cost, _) = graph.cost(l, r, (graph.rows(l), graph.rows(r)), graph.rows(l | r));
    Some(of_left + of_right + cost)
}

/// Every tree over a set, each pair of sides once.
fn all_trees(set: Set) -> Vec<Tree> {
    if set.count_ones() == 1 {
        return vec![Tree::Leaf(set.trailing_zeros() as usize)];
    }
    let lowest = set & set.wrapping_neg();
    let mut trees = Vec::new();
    for part in (0..set).filter(|part| part & !set == 0 && part & lowest != 0) {
        for left in all_trees(part) {
            for right in all_trees(set & !part) {
                trees.push(Tree::Join(Box::new(left.clone()), Box::new(right)));
            }
        }
    }
    trees
}

/// Whether no join of a tree is a product of sets that nothing connects.
fn is_connected(graph: &Graph, tree: &Tree) -> bool {
    let Tree::Join(left, right) = tree else { return true };
    let reach = graph.neighbours();
    let reached = members(left.set()).any(|one| reach[one] & right.set() != 0);
    reached && is_connected(graph, left) && is_connected(graph, right)
}

fn random_graph(rng: &mut Rng, count: usize) -> Graph {
    let rows = |rng: &mut Rng| 10f64.powf(rng.unit() * 6.0).ceil();
    let mut relations: Vec<Relation> = (0..count).map(|_| relation(rows(rng))).collect();
    let mut classes = Vec::new();
    // A tree of equalities, and a few more.
    for number in 1..count {
        let other = rng.below(number as u64) as usize;
        classes.push((other, number));
    }
    for _ in 0..rng.below(3) {
        let (a, b) = (rng.below(count as u64) as usize, rng.below(count as u64) as usize);
        classes.extend((a != b).then_some((a, b)));
    }
    let classes: Vec<Vec<Member>> = classes
        .into_iter()
        .map(|(a, b)| {
            let mut distinct = |one: usize| 1.0 + (relations[one].rows - 1.0) * rng.unit();
            class(&[(a, distinct(a)), (b, distinct(b))])
        })
        .collect();
    let mut filters = Vec::new();
    if rng.chance(1, 3) && count > 2 {
        filters.push(Filter { set: only(0) | only(count - 1), keeps: rng.unit() });
    }
    // A dependent relation has no class of its own.
    if rng.chance(1, 2) {
        let needs = only(rng.below(count as u64) as usize);
        let dependent = Dependent { needs, keeps: rng.unit(), has_key: true };
        relations.push(Relation { rows: rows(rng), dependent: Some(dependent) });
    }
    Graph::new(relations, classes, filters)
}

#[test]
fn no_order_is_cheaper_than_the_one_found() {
    let mut rng = Rng::new(17);
    for case in 0..300 {
        let count = 2 + rng.below(4) as usize;
        let graph = random_graph(&mut rng, count);
        let found = graph.order().expect("connected");
        let cost = cost_of(&graph, &found).expect("a tree that can be");
        assert_eq!(found.set(), graph.all());
        let least = all_trees(graph.all())
            .into_iter()
            .filter(|tree| is_connected(&graph, tree))
            .filter_map(|tree| cost_of(&graph, &tree))
            .fold(f64::INFINITY, f64::min);
        assert!(cost <= least * (1.0 + 1e-9), "case {case}: {cost} and {least}: {found:?}");
    }
}

/// Dependent relations are right sides, joined where all that they need is there.
fn check_dependents(graph: &Graph, tree: &Tree) {
    let Tree::Join(left, right) = tree else { return };
    assert!(graph.may_join(left.set(), right.set()), "{tree:?}");
    check_dependents(graph, left);
    check_dependents(graph, right);
}

#[test]
fn an_order_has_every_relation_once_and_dependents_where_they_may_be() {
    let mut rng = Rng::new(18);
    for _ in 0..200 {
        let count = 2 + rng.below(40) as usize;
        let graph = random_graph(&mut rng, count);
        let found = graph.order().expect("an order");
        let mut leaves = 0;
        let mut open = vec![&found];
        while let Some(tree) = open.pop() {
            match tree {
                Tree::Leaf(_) => leaves += 1,
                Tree::Join(left, right) => open.extend([left.as_ref(), right.as_ref()]),
            }
        }
        assert_eq!((leaves, found.set()), (graph.relations.len(), graph.all()));
        check_dependents(&graph, &found);
    }
}

#[test]
fn few_rows_are_joined_before_many() {
    // A fact table with two dimensions, of which one is reduced to a row.
    let graph = Graph::new(
        vec![relation(1e6), relation(1000.0), relation(1.0)],
        vec![class(&[(0, 1000.0), (1, 1000.0)]), class(&[(0, 5000.0), (2, 1.0)])],
        Vec::new(),
    );
    let Some(Tree::Join(left, right)) = graph.order() else { panic!("a join") };
    let last = if left.set() == only(1) { left } else { right };
    assert_eq!(last.set(), only(1), "the dimension that keeps all rows comes last");
}

#[test]
fn rows_of_a_set_are_those_of_its_keys() {
    let orders = |rows: f64| {
        Graph::new(
            vec![relation(rows), relation(6e6)],
            vec![class(&[(0, rows), (1, 1.5e6)])],
            Vec::new(),
        )
    };
    assert_eq!(orders(1.5e6).rows(3), 6e6);
    assert_eq!(orders(1.5e5).rows(3), 6e5);
    // Two columns together are a key of the first relation.
    let pairs = Graph::new(
        vec![relation(8e5), relation(6e6)],
        vec![class(&[(0, 2e5), (1, 2e5)]), class(&[(0, 1e4), (1, 1e4)])],
        Vec::new(),
    );
    assert!((pairs.rows(3) / 6e6 - 1.0).abs() < 1e-9, "{}", pairs.rows(3));
    let dependent = Dependent { needs: 1, keeps: 0.25, has_key: true };
    let mut relations = vec![relation(100.0), relation(7.0)];
    relations[1].dependent = Some(dependent);
    assert_eq!(Graph::new(relations, Vec::new(), Vec::new()).rows(3), 25.0);
}
