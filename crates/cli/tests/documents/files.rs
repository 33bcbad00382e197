//! Documents of the repository, by their paths from its root.

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text of a file of the repository.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every document whose command lines are checked.
pub fn relative_paths() -> Vec<String> {
    let mut found: Vec<String> = ["README.md", "ARCHITECTURE.md"].map(str::to_owned).into();
    for folder in ["docs", "docs/guide", "docs/experiments"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder of documents") {
            let name = entry.expect("a file").file_name().into_string().expect("a plain name");
            if name.ends_with(".md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found.sort();
    found
}
