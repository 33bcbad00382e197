//! Trees of files that go away with the test, and a journal that forgets.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use halcyon_cache::directory::Directory;
use halcyon_cache::journal::{Journal, Note};

/// A journal for tests that do not crash.
pub struct NoJournal;

impl Journal for NoJournal {
    fn note(&mut self, _: &Note) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A folder that goes away with the test.
pub struct Tree(PathBuf);

impl Tree {
    /// The tree that `recorded/NAME.txt` tells of.
    pub fn unpacked(name: &str) -> Tree {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("halcyon-cache-{}-{count}", std::process::id());
        let tree = Tree(std::env::temp_dir().join(folder));
        let _ = fs::remove_dir_all(&tree.0);
        let file = format!("{}/tests/recorded/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        for line in fs::read_to_string(file).expect("a recorded tree").lines() {
            let (path, text) = line.split_once(": ").expect("path: text");
            tree.write(path, &(text.replace('|', "\n") + "\n"));
        }
        tree
    }

    pub fn files(&self) -> Directory {
        Directory::at(&self.0)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    pub fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).expect("it is there");
    }

    pub fn remove_folder(&self, path: &str) {
        fs::remove_dir(self.0.join(path)).expect("it is there and empty");
    }

    /// All files and folders, with their texts.
    pub fn all(&self) -> BTreeMap<PathBuf, String> {
        fn visit(folder: &Path, all: &mut BTreeMap<PathBuf, String>) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    visit(&path, all);
                    all.insert(path, String::new());
                } else {
                    let text = fs::read_to_string(&path).expect("a text");
                    all.insert(path, text);
                }
            }
        }
        let mut all = BTreeMap::new();
        visit(&self.0, &mut all);
        all
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
