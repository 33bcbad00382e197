//! Work that lasts, as its view shows it: half way, because it waits for its data or stands still.

use std::cell::RefCell;
use std::rc::Rc;

use halcyon_base::progress;

use super::{Database, Look, now, run};

/// A COPY that waits for data, of which two rows pass its condition.
pub(super) fn a_copy_half_way(look: &mut Look) {
    let database = Database::in_memory();
    let (mut watcher, mut copying) = (database.session(), database.session());
    run(&mut watcher, "CREATE SCHEMA market; CREATE TABLE market.trades (id BIGINT)");
    let before = now(&mut watcher);
    let statement = copying.prepare("COPY market.trades FROM STDIN WHERE id <= 2");
    copying.run(&statement.expect("a copy"), &[]).expect("it begins");
    let data: String = (1..=8192).map(|id| format!("{id}\n")).collect();
    copying.copy_data(data.as_bytes()).expect("a batch");
    let of = format!("session = {}", copying.id());
    assert_eq!(look.at(&mut watcher, "session", &of), copying.id().to_string());
    assert_eq!(look.at(&mut watcher, "command", &of), "COPY FROM");
    assert_eq!(look.at(&mut watcher, "schema", &of), "market");
    assert_eq!(look.at(&mut watcher, "relation", &of), "trades");
    assert_eq!(look.at(&mut watcher, "unit", &of), "bytes");
    assert_eq!(look.number(&mut watcher, "bytes", &of), data.len() as f64);
    assert_eq!(look.number(&mut watcher, "rows", &of), 2.0);
    assert_eq!(look.number(&mut watcher, "rows_excluded", &of), 8190.0);
    let started = look.at(&mut watcher, "started", &of);
    assert!(before < started && started < now(&mut watcher), "{before} {started}");
}

/// An index that is built of rows that are loaded by an import, at its 1,024th row.
pub(super) fn an_index_half_way(look: &mut Look) {
    let database = Database::in_memory();
    let mut session = database.session();
    let table = "CREATE TABLE t (id BIGINT); \
                 INSERT INTO t SELECT * FROM generate_series(1, 4096); \
                 CREATE INDEX t_id ON t (id)";
    run(&mut session, table);
    let folder = std::env::temp_dir().join(format!("halcyon-view-works-{}", std::process::id()));
    run(&mut session, &format!("EXPORT DATABASE TO '{}'", folder.display()));

    let new = Database::in_memory();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (told, second) = (Rc::clone(&seen), RefCell::new(new.session()));
    let view = look.view;
    progress::watch(Some(Box::new(move |shown| {
        if shown.kind == progress::Kind::CreateIndex && shown.done == 1024 {
            let text = format!(
                "SELECT work > part_of, part_of IS NOT NULL, index, phase, done, total, percent, \
                 started <= phase_started AND phase_started <= clock_timestamp() \
                 FROM halcyon.{view} WHERE command = 'CREATE INDEX'"
            );
            told.borrow_mut().extend(super::rows(&mut second.borrow_mut(), &text));
        }
    })));
    let imported = new.session().batch(&format!("IMPORT DATABASE FROM '{}'", folder.display()));
    progress::watch(None);
    std::fs::remove_dir_all(&folder).expect("removed");
    imported.expect("an import");
    let phase = "building index: scanning table";
    let expected = format!("Bool(true)|Bool(true)|t_id|{phase}|1024|4096|Float64(25.0)|Bool(true)");
    assert_eq!(*seen.borrow(), [expected]);
    let columns =
        ["work", "part_of", "index", "phase", "done", "total", "percent", "phase_started"];
    look.seen.extend(columns);
}
