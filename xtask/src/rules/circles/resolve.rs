//! Which module a path leads to, and the edges between siblings that follow.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use super::module::{Mention, Module};
use super::source::Crate;

/// Imports that lead to imports: further than this is a circle of them.
const HOPS_MAX: usize = 16;

/// Something under one child of a module names something under another child.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Path of the common parent, empty for the root.
    pub parent: Vec<String>,
    /// Name of the child in which the path is written.
    pub from: String,
    /// Name of the child to which it leads.
    pub to: String,
    /// File and line of the path.
    pub file: String,
    /// Line within the file.
    pub line: usize,
    /// The path as it is written.
    pub text: String,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` uses `{}` at {}:{} (`{}`",
            self.from, self.to, self.file, self.line, self.text
        )
    }
}

/// All edges between siblings, in the order of files and lines.
pub fn edges(modules: &Crate) -> Vec<Edge> {
    let mut found = Vec::new();
    for module in &modules.modules {
        let resolver = Resolver { modules, origin: module, asked: RefCell::default() };
        for mention in &module.mentions {
            let target = resolver.target(mention);
            found.extend(target.and_then(|target| edge(module, target, mention)));
        }
    }
    found
}

/// The edge at the level where the two modules part; none between a module and one inside of it.
fn edge(from: &Module, to: &Module, mention: &Mention) -> Option<Edge> {
    let common = from.path.iter().zip(&to.path).take_while(|(a, b)| a == b).count();
    Some(Edge {
        parent: from.path[..common].to_vec(),
        from: from.path.get(common)?.clone(),
        to: to.path.get(common)?.clone(),
        file: from.file.clone(),
        line: mention.line,
        text: mention.segments.join("::"),
    })
}

/// Follows paths as the module `origin` sees them.
struct Resolver<'a> {
    modules: &'a Crate,
    origin: &'a Module,
    /// Names that modules' globs were asked for on the way to one target: globs of globs meet in the same
    /// modules again and again.
    asked: RefCell<HashSet<(&'a [String], Vec<String>)>>,
}

impl<'a> Resolver<'a> {
    /// The module that a path leads to; `None` if it leaves the crate or names a local thing.
    fn target(&self, mention: &Mention) -> Option<&'a Module> {
        self.asked.borrow_mut().clear();
        if let [only] = &mention.segments[..] {
            // A name without `::` is declared here, imported by name (the import is a mention of
            // its own), or comes by a glob.
            return self.by_glob(self.origin, only, &[], 0);
        }
        self.walk(self.origin, &mention.segments, 0)
    }

    /// Follows `segments` from inside `here`.
    fn walk(&self, here: &'a Module, segments: &[String], hops: usize) -> Option<&'a Module> {
        let (mut at, mut rest) = (here, segments);
        while let Some((first, behind)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => &self.modules.modules[0],
                "self" => at,
                "super" => self.modules.find(at.path.split_last()?.1)?,
                _ => break,
            };
            rest = behind;
        }
        let is_relative = rest.len() == segments.len();
        self.descend(at, rest, hops, is_relative)
    }

    /// Follows names downwards from `at`, and through imports of the modules around the origin.
    fn descend(
        &self,
        mut at: &'a Module,
        mut rest: &[String],
        hops: usize,
        is_relative: bool,
    ) -> Option<&'a Module> {
        let mut found = !is_relative;
        while let Some((first, behind)) = rest.split_first() {
            if let Some(child) = self.modules.child(at, first) {
                (at, rest, found) = (child, behind, true);
                continue;
            }
            if self.is_around_origin(at) {
                let imported = self.by_import(at, first, behind, hops);
                return imported.or(found.then_some(at));
            }
            break;
        }
        found.then_some(at)
    }

    /// Children see what the modules around them import; to others a private import is nothing, and
    /// a public one belongs to the module that they named.
    fn is_around_origin(&self, module: &Module) -> bool {
        self.origin.path.starts_with(&module.path)
    }

    fn by_import(
        &self,
        at: &'a Module,
        name: &str,
        behind: &[String],
        hops: usize,
    ) -> Option<&'a Module> {
        if hops == HOPS_MAX || at.declared.contains(name) {
            return None;
        }
        let mut named = at.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        let named = named.find_map(|import| {
            let whole = [&import.segments, behind].concat();
            self.walk(at, &whole, hops + 1)
        });
        named.or_else(|| self.by_glob(at, name, behind, hops))
    }

    /// A name that a glob of `at` brings in.
    fn by_glob(
        &self,
        at: &'a Module,
        name: &str,
        behind: &[String],
        hops: usize,
    ) -> Option<&'a Module> {
        if hops == HOPS_MAX || at.declared.contains(name) {
            return None;
        }
        let whole = [&[name.to_owned()], behind].concat();
        if !self.asked.borrow_mut().insert((&at.path[..], whole.clone())) {
            return None;
        }
        let globs = at.imports.iter().filter(|import| import.name.is_none());
        let mut sources = globs.filter_map(|glob| self.walk(at, &glob.segments, hops + 1));
        sources.find_map(|source| {
            if source.path == at.path {
                return None;
            }
            if source.declared.contains(name) {
                return Some(source);
            }
            self.descend(source, &whole, hops + 1, true)
        })
    }
}
