//! Folders that earlier versions wrote.

use std::collections::BTreeSet;
use std::sync::Arc;

use halcyon::{Database, SqlState, testing};
use halcyon_base::ids::{PartitionId, SessionId};
use halcyon_catalog::Catalog;
use halcyon_catalog::stored;
use halcyon_store::{ColumnDef, Partition, Schema, Type};
use halcyon_txn::{
    CancelToken, CatalogChange, Contents, Disk, Isolation, Log, LogOptions, Lsn, Manager, Mode,
    Pace, PartitionCell, Storage, WaitLimits,
};

use crate::world::{Folder, fingerprint, one, run};

/// Writes a folder as the first versions did: each commit that changes the catalog has the whole of
/// it in its record. `step` makes those bytes.
fn write_old(folder: &Folder, catalogs: &[Arc<Catalog>], step: impl Fn(&Catalog) -> Vec<u8>) {
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(folder.path()));
    let catalog = stored::encode(&Catalog::initial());
    let contents = Contents { id: 1, lsn: Lsn(64), catalog, partitions: vec![] };
    contents.write(&*storage, &Pace::default()).expect("the disk is sound");
    let log = Log::start(storage, 1, Lsn(64), LogOptions::default()).expect("the disk is sound");
    let log = Arc::new(log);
    let manager = Manager::with_log(Some(log.clone()));
    let mut there: BTreeSet<PartitionId> = BTreeSet::new();
    for catalog in catalogs {
        let cells: Vec<_> = catalog.tables.values().flat_map(|table| &table.cells).collect();
        let now: BTreeSet<PartitionId> = cells.iter().map(|cell| cell.id).collect();
        let created = cells.into_iter().filter(|cell| !there.contains(&cell.id)).cloned().collect();
        let change = CatalogChange {
            catalog: step(catalog),
            created,
            dropped: there.difference(&now).copied().collect(),
            kept: there.intersection(&now).copied().collect(),
        };
        // A transaction that changes the catalog holds a partition of no table.
        let column = ColumnDef { ty: Type::Int64, nullable: false };
        let ddl = PartitionCell::new(PartitionId(0), Partition::new(Schema::new(vec![column])));
        let cancel = CancelToken::new();
        let limits = WaitLimits { timeout: None, cancel: &cancel };
        let mut transaction = manager.begin(Isolation::Serializable, SessionId(1));
        transaction.begin_statement();
        transaction.lock(&Arc::new(ddl), Mode::Exclusive, &limits).expect("nobody has it");
        transaction.end_statement();
        let end = transaction.try_commit(Some(change)).expect("the disk is sound");
        log.wait(end).expect("the disk is sound");
        there = now;
    }
    log.close();
}

/// Catalogs as statements left them, and a database with the last.
fn history() -> (Vec<Arc<Catalog>>, Database) {
    let database = Database::in_memory();
    let mut session = database.session();
    let mut catalogs = Vec::new();
    for statements in [
        &[
            "CREATE TABLE t (id INT PRIMARY KEY, v TEXT DEFAULT 'x') \
             WITH (partition_by = 'id', partitions = 2)",
            "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 100) n",
            "CREATE ROLE clerk LOGIN PASSWORD 'secret'",
        ][..],
        &[
            "CREATE TABLE later (id INT)",
            "CREATE VIEW few AS SELECT id FROM t WHERE id < 10",
            "GRANT SELECT ON few TO clerk",
            "CREATE SEQUENCE counter",
        ],
    ] {
        run(&mut session, statements);
        catalogs.push(testing::catalog(&database));
    }
    drop(session);
    (catalogs, database)
}

#[test]
fn records_with_the_whole_catalog_are_read() {
    let folder = Folder::new("old");
    let (catalogs, before) = history();
    write_old(&folder, &catalogs, stored::encode);
    assert!(stored::encode(&catalogs[0]).starts_with(b"{\"format\":1,"));
    let database = Database::open(folder.path()).expect("an old folder opens");
    assert_eq!(database.opened().expect("it is on disk").commits, 2);
    assert_eq!(fingerprint(&database), fingerprint(&before));
    // What this version writes behind it is read with it, and over it once more.
    run(&mut database.session(), &["ALTER TABLE t ADD COLUMN w INT", "CREATE TABLE u (id INT)"]);
    let changed = fingerprint(&database);
    drop(database);
    let database = Database::open(folder.path()).expect("it opens again");
    assert_eq!(fingerprint(&database), changed);
    assert_eq!(one(&mut database.session(), "SELECT count(w) || '/' || count(*) FROM t"), "0/100");
}

#[test]
fn records_of_a_later_version_are_refused_by_name() {
    for (name, from, to) in [
        ("whole", "{\"format\":1,", "{\"format\":2,"),
        ("change", "{\"format\":1,", "{\"change\":2,"),
    ] {
        let folder = Folder::new(name);
        let later = |catalog: &Catalog| {
            let text = String::from_utf8(stored::encode(catalog)).expect("JSON");
            assert!(text.starts_with(from));
            text.replacen(from, to, 1).into_bytes()
        };
        write_old(&folder, &history().0, later);
        let refused = Database::open(folder.path()).err().expect("nobody here can read it");
        assert_eq!(refused.state(), SqlState::DATA_CORRUPTED, "{refused}");
        assert!(refused.message().contains("has format 2, this version reads 1"), "{refused}");
    }
}
