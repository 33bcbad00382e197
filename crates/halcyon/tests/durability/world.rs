//! What the tests share: folders that go away, and what two databases are compared by.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use halcyon::{Database, Session, testing};

/// A folder of its own, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("halcyon-{name}-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn run(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        let done = session.execute(*statement, &[]);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// The one value of the one row of a query, as text.
pub fn one(session: &mut Session, query: &str) -> String {
    let query = format!("SELECT ({query})::text");
    let statement = session.prepare(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows = session.query(&statement, &[]).unwrap_or_else(|e| panic!("{query}: {e}"));
    let row = rows.next().expect("it runs").expect("a row");
    row.get::<Option<String>>(0).expect("text").unwrap_or("NULL".to_owned())
}

/// Everything that must be the same after a restart. Numbers that were only reserved may differ.
pub fn fingerprint(database: &Database) -> String {
    let catalog = halcyon_catalog::stored::encode(&testing::catalog(database));
    let mut catalog: serde_json::Value = serde_json::from_slice(&catalog).expect("it is JSON");
    for reserved in ["next_oid", "next_partition"] {
        catalog[reserved] = 0.into();
    }
    format!("{catalog:#}\n{:#?}", testing::rows(database))
}
