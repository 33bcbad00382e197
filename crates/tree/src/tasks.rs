//! The tree run by tasks: no latch, and the next node's cache lines are fetched while other tasks
//! run.
//!
//! Words: an operation *hops* when its task is dispatched again for its next node; it *walks* when
//! it goes on to the next node in the same step. A node's *home* is the worker that runs all tasks
//! that change it, one after the other; readers run anywhere and look again if the node's version
//! has changed meanwhile. A *lane* is a task that takes one operation after the other from a
//! source; as many lanes, as many descents in flight.
//!
//! An operation walks where nodes are in the cache anyway (the upper levels), and hops where they
//! are not, so that the runtime's window of ready tasks hides the miss. A write hops to its leaf's
//! home. It does not come back: its lane goes on there with its next operation.
//!
//! If a home's worker finds that its core is not its own, the runtime lets writers run anywhere and
//! take the version as a latch (`Version::write`). Nodes live as long as the tree, so nothing of it
//! needs reclamation, and its tasks do not ask for it.
//!
//! Tried: lanes with 4 and 8 operations under way that fetch lines themselves and share a step's
//! price, with writes sent home in parcels: no faster than one operation per lane and the runtime's
//! window (docs/tree.md).
//!
//! Source: `[mxkernel]` §4.2 ("we spawn a new task for each traversal of a node"). We differ: a
//! task is dispatched again instead of spawning the next one, and it walks the upper levels.

use std::ops::RangeInclusive;

use halcyon_base::sync::Arc;
use halcyon_task::{Access as Intent, Annotation, Context, EnqueueError, Group, Locality};
use halcyon_task::{RunningGroup, Runtime, Step as After, Task, TaskPlace, WorkerId};

use crate::core::{Change, Core};
use crate::latch::{AtHome, Homes, Optimistic};
use crate::node::{NODE_BYTES, Node, NodeId, Separator, Step};
use crate::{NODES_DEFAULT, Operation, Outcome};

/// Where operations hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops {
    /// At every node: a task per visit, as the paper has it.
    EveryNode,
    /// At nodes of levels below this one; above, they walk.
    Below(u32),
}

/// Walks where nodes are in a core's own cache anyway, and hops at the last three levels: found by
/// measurement, docs/tree.md.
impl Default for Hops {
    fn default() -> Self {
        Hops::Below(3)
    }
}

/// A tree that the workers of one runtime change.
pub struct TaskTree {
    core: Core,
    homes: Homes,
    hops: Hops,
}

/// Operations for lanes; shared by the lanes of all workers.
pub trait Source: Send + Sync + 'static {
    /// The next operation and a number to know it by; `None`: the lane ends.
    fn next(&self, worker: WorkerId) -> Option<(u64, Operation)>;

    /// An operation has ended. Operations of different lanes end in any order.
    fn done(&self, worker: WorkerId, number: u64, outcome: Outcome);
}

impl TaskTree {
    /// An empty tree for the workers of `runtime`, and for no other's.
    pub fn new(runtime: &Runtime) -> Arc<Self> {
        TaskTree::with_nodes(runtime, NODES_DEFAULT, true, Hops::default())
    }

    /// An empty tree of at most `nodes` nodes.
    ///
    /// Panics: if there is no such address space.
    pub fn with_nodes(runtime: &Runtime, nodes: usize, huge_pages: bool, hops: Hops) -> Arc<Self> {
        let homes = Homes { workers: runtime.worker_count() as u16 };
        Arc::new(TaskTree { core: Core::with_nodes(nodes, huge_pages), homes, hops })
    }

    /// Value of a key; from any thread, task or not.
    pub fn lookup(&self, key: u64) -> Option<u64> {
        self.core.lookup_from(&Optimistic, self.core.descend(&Optimistic, key, 0), key)
    }

    /// As [`crate::Tree::range`]; from any thread, task or not.
    pub fn range(&self, range: RangeInclusive<u64>, entry: impl FnMut(u64, u64) -> bool) {
        self.core.range(&Optimistic, range, entry);
    }

    /// A task that does one thing and calls `then` with the outcome, on the worker where it ended.
    /// To be spawned without an annotation of its own: it knows where to go.
    pub fn task<F>(self: &Arc<Self>, operation: Operation, then: F) -> OperationTask<F>
    where
        F: FnOnce(&mut Context, Outcome) + Send + 'static,
    {
        OperationTask { tree: Arc::clone(self), descent: None, operation, then: Some(then) }
    }

    /// Runs what `source` gives in `lanes` lanes per worker, as a group that is placed by
    /// `locality`. The operations' inserts are all made known to upper levels when it ends.
    pub fn run(
        self: &Arc<Self>,
        mut group: Group,
        source: &Arc<impl Source>,
        lanes: usize,
        locality: Locality,
    ) -> Result<RunningGroup, EnqueueError> {
        for worker in 0..self.homes.workers {
            for _ in 0..lanes {
                let annotation = Annotation::new().place(TaskPlace::Worker(WorkerId(worker)));
                let (tree, source) = (Arc::clone(self), Arc::clone(source));
                group.step_task(annotation, Lane { tree, source, descent: None });
            }
        }
        group.enqueue(locality)
    }

    /// As [`crate::Tree::check`].
    pub fn check(&self) -> usize {
        self.core.check()
    }

    /// As [`crate::Tree::node_count`].
    pub fn node_count(&self) -> usize {
        self.core.node_count()
    }

    #[inline(always)]
    fn hops_at(&self, level: u32) -> bool {
        match self.hops {
            Hops::EveryNode => true,
            Hops::Below(walked) => level < walked,
        }
    }

    #[inline(always)]
    fn fetch(&self, id: NodeId) -> Annotation {
        let node: *const Node = self.core.node(id);
        Annotation::new().prefetch(node, NODE_BYTES)
    }

    #[inline(always)]
    fn at_home(&self, id: NodeId) -> Annotation {
        self.fetch(id).on(self.homes.of(id), Intent::Write).carries_references(false)
    }

    fn start(&self) -> (NodeId, u32) {
        self.core.root()
    }
}

/// How far an operation has come.
#[derive(Clone, Copy)]
struct Descent {
    at: NodeId,
    level: u32,
}

/// What a step of an operation came to.
enum Stepped {
    Ended(Outcome),
    Hop(Annotation),
}

impl Descent {
    fn start(tree: &TaskTree) -> Self {
        let (at, level) = tree.start();
        Descent { at, level }
    }

    /// Walks, and says where to hop or what the outcome is.
    #[inline(always)]
    fn step(&mut self, tree: &Arc<TaskTree>, operation: Operation, cx: &mut Context) -> Stepped {
        while self.level > 0 {
            match tree.core.visit(&Optimistic, self.at, operation.key(), self.level - 1) {
                // The levels are known from the way down: one visit, one level.
                Step::Down(next) => (self.at, self.level) = (next, self.level - 1),
                Step::Right(next) => self.at = next,
                Step::Here => unreachable!("a node's level never changes"),
            }
            if self.level == 0 && !operation.reads() {
                return Stepped::Hop(tree.at_home(self.at));
            }
            if tree.hops_at(self.level) {
                return Stepped::Hop(tree.fetch(self.at));
            }
        }
        self.at_leaf(tree, operation, cx)
    }

    #[inline(always)]
    fn at_leaf(&mut self, tree: &Arc<TaskTree>, operation: Operation, cx: &mut Context) -> Stepped {
        let by = AtHome { homes: tree.homes, cx };
        let (core, key) = (&tree.core, operation.key());
        let change = match operation {
            Operation::Lookup(key) => {
                return Stepped::Ended(core.lookup_from(&by, self.at, key).into());
            }
            Operation::Insert(_, value) => match core.insert_one(&by, self.at, key, value) {
                Change::Done(true) => Change::Done(Outcome::Inserted),
                Change::Done(false) => Change::Done(Outcome::Present),
                Change::Right(right) => Change::Right(right),
                Change::Split(_, separator) => {
                    Post::spawn(tree, separator, cx);
                    Change::Done(Outcome::Inserted)
                }
            },
            Operation::Update(_, value) => core
                .change_one(&by, self.at, key, |node| Change::Done(node.update(key, value).into())),
            Operation::Delete(_) => {
                core.change_one(&by, self.at, key, |node| Change::Done(node.delete(key).into()))
            }
        };
        match change {
            Change::Done(outcome) | Change::Split(outcome, _) => Stepped::Ended(outcome),
            Change::Right(right) => {
                self.at = right;
                Stepped::Hop(tree.at_home(right))
            }
        }
    }
}

/// One operation as a task.
pub struct OperationTask<F> {
    tree: Arc<TaskTree>,
    descent: Option<Descent>,
    operation: Operation,
    then: Option<F>,
}

impl<F: FnOnce(&mut Context, Outcome) + Send + 'static> Task for OperationTask<F> {
    fn run(&mut self, cx: &mut Context) -> After {
        let Some(descent) = &mut self.descent else {
            // A leaf that is the root has a home too.
            let mut descent = Descent::start(&self.tree);
            if descent.level == 0 && !self.operation.reads() {
                self.descent = Some(descent);
                return After::Again(self.tree.at_home(descent.at));
            }
            let stepped = descent.step(&self.tree, self.operation, cx);
            self.descent = Some(descent);
            return self.after(stepped, cx);
        };
        let stepped = descent.step(&self.tree, self.operation, cx);
        self.after(stepped, cx)
    }
}

impl<F: FnOnce(&mut Context, Outcome)> OperationTask<F> {
    #[inline(always)]
    fn after(&mut self, stepped: Stepped, cx: &mut Context) -> After {
        match stepped {
            Stepped::Hop(annotation) => After::Again(annotation),
            Stepped::Ended(outcome) => {
                if let Some(then) = self.then.take() {
                    then(cx, outcome);
                }
                After::Done
            }
        }
    }
}

/// One operation after the other.
struct Lane<S> {
    tree: Arc<TaskTree>,
    source: Arc<S>,
    descent: Option<(Descent, u64, Operation)>,
}

impl<S: Source> Task for Lane<S> {
    #[inline]
    fn run(&mut self, cx: &mut Context) -> After {
        loop {
            if let Some((descent, number, operation)) = &mut self.descent {
                match descent.step(&self.tree, *operation, cx) {
                    Stepped::Hop(annotation) => return After::Again(annotation),
                    Stepped::Ended(outcome) => self.source.done(cx.worker(), *number, outcome),
                }
            }
            let Some((number, operation)) = self.source.next(cx.worker()) else {
                return After::Done;
            };
            let descent = Descent::start(&self.tree);
            self.descent = Some((descent, number, operation));
            if descent.level == 0 && !operation.reads() {
                return After::Again(self.tree.at_home(descent.at));
            }
            if self.tree.hops_at(descent.level) {
                return After::Again(self.tree.fetch(descent.at));
            }
        }
    }
}

/// Tells the level above about a split.
struct Post {
    tree: Arc<TaskTree>,
    separator: Separator,
    at: NodeId,
}

impl Post {
    #[cold]
    fn spawn(tree: &Arc<TaskTree>, separator: Separator, cx: &mut Context) {
        let at = tree.core.descend(&Optimistic, separator.key, separator.level + 1);
        let annotation = tree.at_home(at);
        cx.spawn_task(annotation, Post { tree: Arc::clone(tree), separator, at });
    }
}

impl Task for Post {
    fn run(&mut self, cx: &mut Context) -> After {
        let (key, child) = (self.separator.key, u64::from(self.separator.node.0));
        let by = AtHome { homes: self.tree.homes, cx };
        match self.tree.core.insert_one(&by, self.at, key, child) {
            Change::Done(_) => return After::Done,
            Change::Right(right) => self.at = right,
            Change::Split(_, above) => {
                self.separator = above;
                self.at = self.tree.core.descend(&Optimistic, above.key, above.level + 1);
            }
        }
        After::Again(self.tree.at_home(self.at))
    }
}
