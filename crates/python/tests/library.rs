//! The library that Python loads, as far as it can be looked at without Python. That this file is here has `cargo test` build it.

use std::fs;
use std::path::Path;

/// The library lies beside the tests, where `./test python` takes it from, and has what an interpreter looks for.
#[test]
fn the_library_is_beside_the_tests_and_says_how_it_is_loaded() {
    let own = std::env::current_exe().expect("a test is a program");
    let name =
        format!("{}halcyon_python{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = own.parent().expect("a folder").join(name);
    let bytes = fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let wanted = b"PyInit__halcyon\0";
    assert!(bytes.windows(wanted.len()).any(|at| at == wanted), "no symbol of Python's");
}

/// Type checkers are told of each class and function that the module exports.
#[test]
fn what_the_module_exports_is_declared_for_type_checkers() {
    let text = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let (module, declared) = (text("src/lib.rs"), text("python/halcyon/_halcyon.pyi"));
    let module = module.split_once("mod _halcyon {").expect("the module").1;
    let mut wanted = Vec::new();
    for line in module.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("use crate::") {
            let names = path.split(|at: char| !at.is_alphanumeric());
            // Types begin with a capital, modules do not.
            let classes = names.filter(|name| name.starts_with(char::is_uppercase));
            wanted.extend(classes.map(|name| format!("class {name}")));
        }
        let function = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        wanted.extend(function.map(|name| format!("def {name}(")));
    }
    assert!(wanted.len() >= 7, "{wanted:?}");
    let missing: Vec<_> = wanted.iter().filter(|name| !declared.contains(*name)).collect();
    assert!(missing.is_empty(), "not declared: {missing:?}");
}
