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
fn the_stub_has_what_the_module_exports() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let module = fs::read_to_string(crate_folder.join("src/lib.rs")).expect("the module");
    let stub =
        fs::read_to_string(crate_folder.join("python/halcyon/_halcyon.pyi")).expect("the stub");
    let module = module.split_once("mod _halcyon {").expect("the module is declared").1;
    let mut exported = 0;
    for line in module.lines().map(str::trim) {
        if let Some(names) = line.strip_prefix("use crate::") {
            let names = names.rsplit("::").next().unwrap_or_default();
            for name in names
                .trim_matches(['{', '}', ';'])
                .split([',', ' '])
                .filter(|name| !name.is_empty())
            {
                let name = name.trim_matches(['}', ';']);
                assert!(stub.contains(&format!("class {name}")), "the stub lacks class {name}");
                exported += 1;
            }
        }
        if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
            assert!(stub.contains(&format!("def {name}(")), "the stub lacks {name}");
            exported += 1;
        }
    }
    assert!(exported >= 7, "{exported} names are exported");
}
