//! Modules of a crate depend on each other in one direction.
//!
//! Words: a module's *children* are the modules declared in it; *siblings* have the same parent. A
//! path that is written anywhere under one child and leads anywhere under its sibling is an *edge*
//! between the two.
//!
//! Siblings may not form a circle, at any level of the tree: a folder is one module to the modules
//! beside it, and its own children are looked at among themselves. A child may use its parent and the
//! parent its child; that is how a folder's common types reach the modules in it. A name that a
//! parent imports and a child takes from there counts as the child's own import, so a re-export
//! hides no edge.
//!
//! Looked at: paths in `use` lines, expressions, types and macros of every target below `src`, without
//! what only tests compile. Not looked at: calls of methods, which name no module.

mod graph;
mod module;
mod resolve;
mod source;

use std::fs;
use std::path::Path;

use super::Offence;
use super::excuses::{self, Excuse};
use crate::workspace::Workspace;
use graph::Circle;
use source::Crate;

/// Crates whose circles are known and being cut. A crate that has none left must go from here.
const EXCUSED: &[Excuse] = &[];

/// Looks at the targets below `src` of every own crate.
pub fn check(workspace: &Workspace) -> Vec<Offence> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let per_crate = workspace.own().map(|package| {
        let source = package.folder.join("src");
        let roots = package.target_roots.iter().filter(|root| root.starts_with(&source));
        let offences = roots.flat_map(|root| offences(root, &workspace.root, &read)).collect();
        (package.name.as_str(), offences)
    });
    excuses::apply(EXCUSED, file!(), per_crate)
}

/// The edges within the knots of a crate, a line for each pair of modules: what there is to cut.
pub fn knots(workspace: &Workspace, crate_name: &str) -> Result<Vec<String>, String> {
    let named = |name: &str| name.strip_prefix("halcyon-").unwrap_or(name) == crate_name;
    let package =
        workspace.own().find(|package| named(&package.name) || package.name == crate_name);
    let package = package.ok_or_else(|| format!("there is no crate {crate_name:?}"))?;
    let source = package.folder.join("src");
    let mut lines = Vec::new();
    for root in package.target_roots.iter().filter(|root| root.starts_with(&source)) {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let modules = Crate::read(root, &workspace.root, &read).map_err(|error| error.message)?;
        let edges = resolve::edges(&modules);
        for circle in graph::circles(&edges) {
            lines.push(format!("among the modules of {}:", circle.parent_name()));
            lines.extend(circle.pairs(&edges));
        }
    }
    Ok(lines)
}

/// Circles among the modules of the crate that begins at `root`; files are told relative to `base`.
fn offences(root: &Path, base: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Vec<Offence> {
    let modules = match Crate::read(root, base, read) {
        Ok(modules) => modules,
        Err(error) => return vec![Offence::new(error.file, error.message)],
    };
    graph::circles(&resolve::edges(&modules)).iter().map(offence).collect()
}

fn offence(circle: &Circle) -> Offence {
    let steps: Vec<String> = circle.steps.iter().map(ToString::to_string).collect();
    let parent = circle.parent_name();
    let knot = match circle.knot.len() - circle.steps.len() {
        0 => String::new(),
        more => format!(" ({more} more modules hang in this knot: {})", circle.knot.join(", ")),
    };
    let message = format!(
        "a circle among the modules of {parent}{knot}:\n    {}\n    Cut one of these edges: move the \
         type or function that both sides need into a module below both, hand it in as a parameter \
         or closure, or, if the modules mean nothing without each other, make them one folder with \
         their common types in its mod.rs (`cargo xtask knots CRATE` lists all edges)",
        steps.join("\n    ")
    );
    Offence::new(circle.steps[0].place(), message)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| PathBuf::from("/c/src").join(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        let found = offences(Path::new("/c/src/lib.rs"), Path::new("/c"), &read);
        found.iter().map(Offence::to_string).collect()
    }

    #[test]
    fn two_siblings_that_use_each_other_are_refused_with_both_places() {
        let found = check(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;"),
            ("a.rs", "\nuse crate::b::{self, Below as Other};\nuse crate::c::End;"),
            ("b.rs", "fn f() -> u32 {\n    super::a::g()\n}"),
            ("c.rs", "pub struct End;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        let text = &found[0];
        assert!(
            text.starts_with("src/a.rs:2: a circle among the modules of the crate:\n"),
            "{text}"
        );
        assert!(
            text.contains("`a` uses `b` at src/a.rs:2 (`crate::b`, and 1 more place)"),
            "{text}"
        );
        assert!(text.contains("`b` uses `a` at src/b.rs:2 (`super::a::g`)"), "{text}");
        assert!(text.contains("into a module below both"), "{text}");
    }

    #[test]
    fn the_shortest_circle_of_a_knot_is_told_and_the_others_are_counted() {
        let found = check(&[
            ("lib.rs", "mod a;mod b;mod c;mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "use crate::{a::A, d::D};"),
            ("d.rs", "use crate::c::C;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("(2 more modules hang in this knot: a, b, c, d)"), "{found:?}");
        assert!(found[0].contains("`c` uses `d`") && !found[0].contains("`a` uses"), "{found:?}");
    }

    #[test]
    fn children_and_parents_may_use_each_other() {
        let files = [
            ("lib.rs", "pub mod a;\npub struct Common;\nuse a::Thing;"),
            ("a/mod.rs", "mod x;\npub struct Thing;\nfn f() { x::g() }"),
            ("a/x.rs", "use super::Thing;\nuse crate::Common;\npub fn g() {}"),
        ];
        assert_eq!(check(&files), [""; 0]);
    }

    #[test]
    fn a_folder_is_one_module_to_those_beside_it() {
        let found = check(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y;"),
            ("a/x.rs", "use crate::b::B;"),
            ("a/y.rs", ""),
            ("b.rs", "use crate::a::y::Y;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`a` uses `b` at src/a/x.rs:1"), "{found:?}");
    }

    #[test]
    fn circles_deep_in_the_tree_are_found_in_inline_modules_too() {
        let found = check(&[
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod x { use super::y::Y; pub struct X; }\nmod y { pub struct Y(super::x::X); }",
            ),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("among the modules of a:"), "{found:?}");
    }

    #[test]
    fn a_name_taken_from_the_parent_s_imports_is_an_edge_to_where_it_comes_from() {
        let reexported = [
            ("lib.rs", "mod a; mod b; pub use b::Thing;"),
            ("a.rs", "use crate::Thing;"),
            ("b.rs", "use crate::a::A;"),
        ];
        assert_eq!(check(&reexported).len(), 1);
        let by_glob = [
            ("lib.rs", "mod a; mod b; use b::*;"),
            ("a.rs", "use super::*; fn f(x: Thing) {}"),
            ("b.rs", "pub struct Thing; use crate::a::A;"),
        ];
        assert_eq!(check(&by_glob).len(), 1);
    }

    #[test]
    fn paths_through_aliases_and_in_macros_are_edges() {
        let alias = [
            ("lib.rs", "mod a { mod x; mod y; }"),
            ("a/x.rs", "use crate::a as up; fn f() { up::y::g() }"),
            ("a/y.rs", "fn g() { assert_eq!(1, crate::a::x::f()) }"),
        ];
        assert_eq!(check(&alias).len(), 1);
    }

    #[test]
    fn what_only_tests_compile_makes_no_edge() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            (
                "b.rs",
                "#[cfg(all(test, not(shuttle)))] mod tests { use crate::a::A; }\n\
                 #[cfg(any(test, fuzzing))] use crate::a::A;\n\
                 #[test] fn f() { crate::a::g() }\n\
                 struct S { #[cfg(test)] a: crate::a::A }",
            ),
        ];
        assert_eq!(check(&files), [""; 0]);
    }

    #[test]
    fn a_file_that_is_not_rust_is_named() {
        let found = check(&[("lib.rs", "mod a;"), ("a.rs", "fn {")]);
        assert!(found[0].starts_with("src/a.rs: cannot be parsed"), "{found:?}");
    }
}
