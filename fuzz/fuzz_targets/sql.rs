//! SQL text in a session: an error or a result, never a broken invariant.
#![no_main]

use std::cell::RefCell;

use halcyon::{Database, Session, SqlState};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::new({
        let mut session = Database::in_memory().session();
        session.batch("CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT)").expect("a table");
        session.set("statement_timeout", "2s").expect("a setting");
        session
    });
}

fuzz_target!(|text: &str| {
    SESSION.with_borrow_mut(|session| {
        if let Err(error) = session.batch(text) {
            assert_ne!(error.state(), SqlState::INTERNAL_ERROR, "{error}");
        }
        let _ = session.rollback();
    });
});
