//! Views in cells, as `halcyon.cells` shows them.

use super::{Database, Look, run};
use halcyon::testing;

/// A view in a thread that does what a cell does.
fn view_in_a_thread() -> (Database, halcyon::Session) {
    let database = Database::in_memory();
    let mut session = database.session();
    run(&mut session, "CREATE SCHEMA shop; SET search_path = shop; CREATE STREAM s (k INT)");
    run(
        &mut session,
        "CREATE MATERIALIZED VIEW counts WITH (place = 'thread', cell_memory = '48MB', cell_cpu = 0) \
         AS SELECT k, COUNT(*) AS n FROM s GROUP BY k",
    );
    (database, session)
}

pub fn what_cells_do(look: &mut Look) {
    let (_database, mut session) = view_in_a_thread();
    assert_eq!(look.at(&mut session, "schema", ""), "shop");
    assert_eq!(look.at(&mut session, "view", ""), "counts");
    assert_eq!(look.at(&mut session, "place", ""), "thread");
    assert_eq!(look.at(&mut session, "cpu", ""), "0");
    assert_eq!(look.at(&mut session, "memory_bytes", ""), (48 << 20).to_string());
    assert_eq!(look.at(&mut session, "events", ""), "0");
    let (beats, log) =
        (look.number(&mut session, "heartbeat", ""), look.number(&mut session, "log_bytes", ""));
    run(&mut session, "INSERT INTO s SELECT n FROM generate_series(1, 1000) n");
    assert_eq!(look.at(&mut session, "events", ""), "1000");
    assert!(look.number(&mut session, "heartbeat", "") > beats);
    assert!(look.number(&mut session, "log_bytes", "") > log + 1000.0 * 8.0);
    run(&mut session, "BEGIN; INSERT INTO s VALUES (1); ROLLBACK");
    assert_eq!(look.at(&mut session, "events", ""), "1000");
}

pub fn a_cell_that_breaks(look: &mut Look) {
    let (database, mut session) = view_in_a_thread();
    assert_eq!(look.at(&mut session, "state", ""), "running");
    assert_eq!(look.at(&mut session, "restarts", ""), "0");
    assert_eq!(look.at(&mut session, "fault", ""), "NULL");
    let catalog = testing::catalog(&database);
    let table = catalog.find_table(&["counts".to_owned()], &["shop".to_owned()]);
    table.expect("the view").materialized().expect("a view").maintained().break_cell();
    assert_eq!(look.at(&mut session, "state", ""), "broken");
    assert_eq!(look.at(&mut session, "fault", ""), "the cell was ended by force");
    run(&mut session, "INSERT INTO s VALUES (1)");
    assert_eq!(look.at(&mut session, "state", ""), "running");
    assert_eq!(look.at(&mut session, "restarts", ""), "1");
}
