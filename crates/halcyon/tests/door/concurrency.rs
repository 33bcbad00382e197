//! Several sessions at once: waiting, deadlock, timeouts, cancellation, snapshots beside writers.

use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use halcyon::{Database, SqlState, params};
use halcyon_base::duty;

use crate::{items, one, state};

const TOTAL: &str = "SELECT sum(stock)::bigint FROM item";

#[test]
fn a_lock_timeout_ends_the_wait() {
    let db = items(1);
    let (mut holder, mut waiter) = (db.session(), db.session());
    holder.batch("BEGIN; UPDATE item SET stock = 1").unwrap();
    waiter.batch("SET lock_timeout = 20").unwrap();
    let late = waiter.batch("UPDATE item SET stock = 2");
    assert_eq!(state(late), SqlState::LOCK_NOT_AVAILABLE);
    holder.batch("COMMIT").unwrap();
    waiter.batch("UPDATE item SET stock = stock + 2").unwrap();
    assert_eq!(one(&mut waiter, TOTAL), "3");
}

#[test]
fn a_waiting_statement_is_cancelled_from_outside() {
    let db = items(1);
    let (mut holder, mut waiter) = (db.session(), db.session());
    holder.batch("BEGIN; UPDATE item SET stock = 1").unwrap();
    let cancel = waiter.canceller();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| state(waiter.batch("UPDATE item SET stock = 2")));
        while !waiting.is_finished() {
            cancel.cancel();
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(waiting.join().unwrap(), SqlState::QUERY_CANCELED);
    });
    holder.batch("ROLLBACK").unwrap();
    assert_eq!(one(&mut waiter, TOTAL), "10");
}

#[test]
fn a_long_statement_ends_at_its_timeout() {
    let db = items(3000);
    let mut session = db.session();
    session.batch("SET statement_timeout = 50").unwrap();
    let long = session.batch(
        "SELECT count(*) FROM item a, item b, item c WHERE a.stock + b.stock < c.stock + c.id",
    );
    assert_eq!(state(long), SqlState::QUERY_CANCELED);
    session.batch("RESET statement_timeout").unwrap();
    assert_eq!(one(&mut session, TOTAL), "30000");
}

/// A pattern that is tried at every place of the text, and fails at its end each time: 10¹¹ comparisons. And an
/// expression with 10⁸ matches.
#[test]
fn a_comparison_with_a_long_pattern_ends_at_its_timeout() {
    let db = items(1);
    let mut session = db.session();
    session.batch("SET statement_timeout = 200").unwrap();
    let (text, pattern) = ("repeat('a', 1000000)", "'%' || repeat('_a', 100000) || 'b%'");
    let texts = "repeat('a', 1000000 + stock)";
    for comparison in [
        format!("SELECT {texts} LIKE {pattern} FROM item WHERE id = 0"),
        format!("SELECT {texts} NOT ILIKE {pattern} FROM item WHERE id = 0"),
        format!("SELECT {texts} LIKE {pattern} || stock FROM item WHERE id = 0"),
        format!("SELECT {texts} ILIKE {pattern} FROM item WHERE id + 0 = 0"),
        format!("SELECT {texts} ILIKE {pattern} || stock FROM item WHERE id + 0 = 0"),
        format!("SELECT {text} ILIKE {pattern}"),
        "SELECT regexp_count(repeat('a', 99999990 + stock), 'a') FROM item WHERE id = 0".to_owned(),
    ] {
        let began = Instant::now();
        let ended = session.batch(&comparison);
        assert_eq!(state(ended), SqlState::QUERY_CANCELED, "{comparison}");
        assert!(began.elapsed() < Duration::from_secs(30), "{comparison}");
    }
}

#[test]
fn operators_of_a_statement_whose_time_is_over_end_too() {
    let db = items(1);
    let mut session = db.session();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    session.batch("SET statement_timeout = 100").unwrap();
    for _ in 0..2 * workers {
        let long = session.batch(
            "SELECT median(x) OVER (ORDER BY x) FROM generate_series(1, 1000000) x OFFSET 999999",
        );
        assert_eq!(state(long), SqlState::QUERY_CANCELED);
    }
    session.batch("RESET statement_timeout").unwrap();
    // As many workers as there are would go on with the medians for hours.
    session.batch("SELECT count(*) FROM generate_series(1, 100000) x WHERE x % 3 = 1").unwrap();
}

#[test]
fn of_two_that_wait_for_each_other_one_is_undone() {
    let db = items(1);
    db.session()
        .batch("CREATE TABLE other (id INTEGER PRIMARY KEY); INSERT INTO other VALUES (0)")
        .unwrap();
    let barrier = Barrier::new(2);
    let run = |first: &str, second: &str| {
        let mut session = db.session();
        session.batch(&format!("BEGIN; {first}")).unwrap();
        barrier.wait();
        let ended = session.batch(second).map_err(|error| error.state());
        session.batch(if ended.is_ok() { "COMMIT" } else { "ROLLBACK" }).unwrap();
        ended
    };
    let (one_update, other_update) = ("UPDATE item SET stock = 1", "UPDATE other SET id = 1");
    let ends = thread::scope(|scope| {
        let a = scope.spawn(|| run(one_update, other_update));
        let b = scope.spawn(|| run(other_update, one_update));
        [a.join().unwrap(), b.join().unwrap()]
    });
    let victims = ends.iter().filter(|end| **end == Err(SqlState::DEADLOCK_DETECTED)).count();
    assert_eq!((victims, ends.iter().filter(|end| end.is_ok()).count()), (1, 1), "{ends:?}");
}

#[test]
fn transfers_conserve_the_total_in_every_snapshot() {
    let db = items(64);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let transfer = |seed: u64| {
            let mut session = db.session();
            let take = session.prepare("UPDATE item SET stock = stock - $2 WHERE id = $1").unwrap();
            let give = session.prepare("UPDATE item SET stock = stock + $2 WHERE id = $1").unwrap();
            let mut random = seed;
            for round in 0..400 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (from, to) = ((random >> 33) as i32 % 64, (random >> 43) as i32 % 64);
                session
                    .transaction(|tx| {
                        tx.execute(&take, params![from, 1_i64])?;
                        tx.execute(&give, params![to, 1_i64])?;
                        Ok(())
                    })
                    .unwrap();
                if round % 7 == 0 {
                    session.batch("BEGIN; UPDATE item SET stock = stock + 1; ROLLBACK").unwrap();
                }
            }
        };
        let writers = [scope.spawn(move || transfer(1)), scope.spawn(move || transfer(2))];
        let reader = scope.spawn(|| {
            let mut session = db.session();
            let mut seen = 0;
            while !done.load(Ordering::Relaxed) || seen < 20 {
                assert_eq!(one(&mut session, TOTAL), "640");
                seen += 1;
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

thread_local!(static RELIEVED: Cell<u32> = const { Cell::new(0) });
thread_local!(static LEFT: Cell<u32> = const { Cell::new(0) });

/// A statement that reaches few rows has been short so often that it runs on duty. When it reaches many, its thread
/// leaves the duty in the middle, so that others are served: whichever loop over rows it is that lasts.
#[test]
fn a_statement_that_was_short_leaves_its_duty_when_it_lasts() {
    let database = Database::in_memory();
    let mut session = database.session();
    session
        .batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
             CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id INTEGER PRIMARY KEY, of INTEGER REFERENCES parent ON DELETE CASCADE);
             CREATE INDEX ON child (of);
             INSERT INTO parent SELECT i FROM generate_series(1, 5) AS s(i);
             INSERT INTO t SELECT i, 0 FROM generate_series(1, 20000) AS s(i)",
        )
        .unwrap();
    let prepared = [
        ("UPDATE t SET n = n + 1 WHERE id <= $1", ""),
        ("DELETE FROM t WHERE id <= $1", ""),
        (
            "DELETE FROM parent WHERE id = $1 - 19999",
            "INSERT INTO child SELECT i, 1 FROM generate_series(1, 5000) AS s(i)",
        ),
    ];
    let relief = |work: &mut dyn FnMut()| {
        RELIEVED.set(RELIEVED.get() + 1);
        work();
    };
    for (text, before) in prepared {
        let statement = session.prepare(text).unwrap();
        let mut run = |reached: i32| {
            RELIEVED.set(0);
            LEFT.set(0);
            let ran = || session.execute(&statement, params![reached]);
            duty::on_duty(relief, || LEFT.set(LEFT.get() + 1), ran).unwrap();
            (RELIEVED.get(), LEFT.get())
        };
        let on_duty = (0..10_000).any(|_| run(0) == (0, 0) && run(-1) == (0, 0));
        assert!(on_duty, "{text} is never short");
        session.batch(before).unwrap();
        let statement = session.prepare(text).unwrap();
        RELIEVED.set(0);
        LEFT.set(0);
        let ran = || session.execute(&statement, params![20_000]);
        duty::on_duty(relief, || LEFT.set(LEFT.get() + 1), ran).unwrap();
        // On a busy machine the last short run may have lasted: then the thread was relieved before the statement ran,
        // and once more before the commit.
        let (left, relieved) = (LEFT.get(), RELIEVED.get());
        assert!(left == 1 || relieved == 2, "{text}: {left}, {relieved}");
    }
}
