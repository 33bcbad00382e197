//! Folders that something has happened to: files deleted, cut, zeroed, with bits flipped. A database
//! never starts with fewer commits than were acknowledged; it refuses, and says what is missing.
//!
//! Invariant, checked by `no_damage_makes_commits_disappear`: whatever one to three changes are made
//! to the files of a folder, after a clean stop or after a kill, opening it is refused, or every
//! acknowledged commit is there. The test makes the folder as a killed process leaves it by copying it
//! while the database is open and at rest.

use std::fs;
use std::path::{Path, PathBuf};

use halcyon::{Database, SqlState};
use halcyon_base::crc32c::crc32c;
use halcyon_base::rng::Rng;

use crate::world::{Folder, one, run};

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("it lies below"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("it can be made");
        // The zeroes at the end take no room.
        let bytes = fs::read(&file).expect("it can be read");
        fs::write(&target, &bytes[..used(&bytes)]).expect("it can be written");
        let file = fs::OpenOptions::new().write(true).open(&target).expect("it is there");
        file.set_len(bytes.len() as u64).expect("it can grow");
    }
}

/// A folder with `rows` acknowledged commits behind one that made a table; some of them in a
/// checkpoint. Returned twice: as a kill leaves it, and as a clean stop does.
fn made(name: &str, rows: u64, checkpoint_at: u64) -> (Folder, Folder) {
    let (folder, killed) = (Folder::new(name), Folder::new(name));
    let database = Database::open(folder.path()).expect("a new database");
    let mut session = database.session();
    run(&mut session, &["CREATE TABLE t (id INT PRIMARY KEY, v TEXT)"]);
    for id in 0..rows {
        run(&mut session, &[&format!("INSERT INTO t VALUES ({id}, repeat('x', {}))", id * 7)]);
        if id == checkpoint_at {
            database.checkpoint().expect("a checkpoint");
        }
    }
    // Until the log has come to rest, so that the last write was no commit.
    std::thread::sleep(std::time::Duration::from_millis(500));
    copy(folder.path(), killed.path());
    drop((session, database));
    (killed, folder)
}

/// The log's files, in order.
fn log_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = files(&folder.join("log"));
    found.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
    found
}

fn rows(folder: &Path) -> Result<u64, halcyon::SqlError> {
    let database = Database::open(folder)?;
    Ok(one(&mut database.session(), "SELECT count(*) FROM t").parse().expect("a number"))
}

/// The bytes of a log file that are in use.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Does some harm to a folder, and says which.
fn harm(folder: &Path, rng: &mut Rng) -> String {
    let all = files(folder);
    if all.is_empty() {
        return "nothing is left".to_owned();
    }
    if rng.chance(1, 8) {
        let parts: Vec<PathBuf> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_dir())
            .collect();
        if !parts.is_empty() {
            let part = rng.pick(&parts);
            fs::remove_dir_all(part).expect("it can be removed");
            return format!("removed {}", part.display());
        }
    }
    let file = rng.pick(&all);
    let shown = file.display();
    let mut bytes = fs::read(file).expect("it can be read");
    let used = used(&bytes).max(1) as u64;
    let at = rng.below(used) as usize;
    let what = match rng.below(4) {
        0 => {
            fs::remove_file(file).expect("it can be removed");
            return format!("removed {shown}");
        }
        1 => {
            bytes.truncate(at);
            format!("cut {shown} at {at} of {used}")
        }
        2 if at < bytes.len() => {
            bytes[at] ^= 1 << rng.below(8);
            format!("flipped a bit at {at} of {used} in {shown}")
        }
        _ => {
            let end = match rng.chance(1, 2) {
                true => bytes.len(),
                false => (at + 1 + rng.below(4096) as usize).min(bytes.len()),
            };
            bytes[at.min(end)..end].fill(0);
            format!("zeroed {shown} from {at} to {end} of {used}")
        }
    };
    fs::write(file, bytes).expect("it can be written");
    what
}

/// `HALCYON_DAMAGE_ROUNDS` sets how many.
#[test]
fn no_damage_makes_commits_disappear() {
    let set = std::env::var("HALCYON_DAMAGE_ROUNDS").ok().and_then(|text| text.parse().ok());
    let (mut refused, mut whole) = (0, 0);
    let made: Vec<(Folder, Folder)> =
        [100, 12].into_iter().map(|checkpoint_at| made("harmed", 20, checkpoint_at)).collect();
    for seed in 0..set.unwrap_or(100) {
        let mut rng = Rng::new(seed);
        let (killed, closed) = rng.pick(&made);
        let folder = Folder::new("harm");
        copy(if rng.chance(1, 2) { killed.path() } else { closed.path() }, folder.path());
        let harms: Vec<String> =
            (0..rng.range(1..4)).map(|_| harm(folder.path(), &mut rng)).collect();
        let checked = Database::check(folder.path(), &|_| ());
        match rows(folder.path()) {
            Ok(found) => {
                assert_eq!(found, 20, "seed {seed}: {harms:#?}");
                checked.unwrap_or_else(|error| panic!("seed {seed}: {error} {harms:#?}"));
                whole += 1;
            }
            Err(error) => {
                assert!(
                    checked.is_err(),
                    "seed {seed}: only check says ok, not {error} {harms:#?}"
                );
                refused += 1;
            }
        }
    }
    println!("{refused} refused, {whole} whole");
    assert!(refused > whole, "{refused} refused, {whole} whole");
}

/// Each way of losing the end of the log, or all of it, is told by name, and by `check` too.
#[test]
fn what_is_missing_is_named() {
    type Harm = fn(&Path);
    let cases: [(&str, Harm, &str); 8] = [
        (
            "the newest file",
            |folder| fs::remove_file(log_files(folder).pop().expect("a file")).expect("removed"),
            "the newest log file",
        ),
        (
            "the whole log",
            |folder| fs::remove_dir_all(folder.join("log")).expect("removed"),
            "the newest log file",
        ),
        (
            "the end of the last file",
            |folder| {
                let last = log_files(folder).pop().expect("a file");
                let bytes = fs::read(&last).expect("it is there");
                fs::write(last, &bytes[..used(&bytes) - 200]).expect("written");
            },
            "bytes of",
        ),
        (
            "zeroes at the end",
            |folder| {
                let last = log_files(folder).pop().expect("a file");
                let mut bytes = fs::read(&last).expect("it is there");
                let end = used(&bytes);
                bytes[end - 200..].fill(0);
                fs::write(last, &bytes).expect("written");
            },
            "up to where it was durable",
        ),
        (
            "the checkpoint",
            |folder| {
                for entry in fs::read_dir(folder).expect("a folder") {
                    let path = entry.expect("an entry").path();
                    if path.to_string_lossy().contains("checkpoint-") {
                        fs::remove_dir_all(path).expect("removed");
                    }
                }
            },
            "the checkpoint",
        ),
        (
            "MANIFEST",
            |folder| fs::remove_file(folder.join("MANIFEST")).expect("removed"),
            "the file MANIFEST",
        ),
        (
            "all but the lock",
            |folder| {
                fs::remove_dir_all(folder).expect("removed");
                fs::create_dir(folder).expect("made");
                fs::write(folder.join("LOCK"), "").expect("made");
            },
            "everything but the file LOCK",
        ),
        (
            "all but the manifest",
            |folder| {
                for file in files(folder).iter().filter(|file| !file.ends_with("MANIFEST")) {
                    fs::remove_file(file).expect("removed");
                }
            },
            "checkpoint",
        ),
    ];
    let (killed, closed) = made("named", 5, 100);
    for (name, harm, expected) in cases {
        for from in [&killed, &closed] {
            let folder = Folder::new("named");
            copy(from.path(), folder.path());
            harm(folder.path());
            let checked = Database::check(folder.path(), &|_| ()).expect_err(name);
            let refused = rows(folder.path()).expect_err(name);
            assert_eq!(refused.state(), SqlState::DATA_CORRUPTED, "{name}: {refused}");
            assert!(refused.message().contains(expected), "{name}: {refused}");
            assert_eq!(checked.message(), refused.message(), "{name}");
        }
    }
}

/// An administrator can go on with what is left, and is told what is not.
#[test]
fn a_repair_cuts_the_log_at_the_last_commit_that_can_be_reached() {
    let (_, folder) = made("repaired", 5, 100);
    let repair =
        || Database::repair_accepting_loss(folder.path()).expect("the checkpoint is whole");
    assert_eq!(repair(), None);
    let path = log_files(folder.path())[0].clone();
    let mut bytes = fs::read(&path).expect("it is there");
    // A commit somewhere in the middle.
    let place = bytes.windows(21).position(|bytes| bytes == [b'x'; 21]).expect("the fourth row");
    bytes[place] ^= 1;
    fs::write(&path, bytes).expect("it can be written");
    rows(folder.path()).expect_err("it is damaged");
    let repair = repair().expect("there was something to repair");
    assert_eq!(repair.commits, 1, "{repair:?}");
    assert!(repair.end < repair.known, "{repair:?}");
    assert!(fs::read_dir(folder.path().join(&repair.kept_in)).expect("kept").next().is_some());
    Database::check(folder.path(), &|_| ()).expect("it is whole again");
    assert_eq!(rows(folder.path()).expect("it opens"), 3);
}

#[test]
fn folders_are_their_owners_alone_and_the_lock_file_locks_nothing_alone() {
    use std::os::unix::fs::PermissionsExt;
    let parent = Folder::new("private");
    let folder = parent.path().join("data");
    let database = Database::open(&folder).expect("a new database");
    run(&mut database.session(), &["CREATE TABLE t (id INT)", "CHECKPOINT"]);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("log")), 0o700);
    for file in files(&folder) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    fs::remove_file(folder.join("LOCK")).expect("it is there");
    let refused = Database::open(&folder).err().expect("it is open");
    assert_eq!(refused.state(), SqlState::OBJECT_IN_USE);
}

#[test]
fn copies_do_not_go_into_the_database_itself_and_are_marked_until_they_are_whole() {
    let folder = Folder::new("copied");
    let database = Database::open(folder.path()).expect("a new database");
    for statement in ["BACKUP TO", "EXPORT DATABASE TO"] {
        for within in ["", "copy", "log/copy", "new/../copy"] {
            let place = folder.path().join(within);
            let statement = format!("{statement} '{}'", place.display());
            let refused = database.session().execute(statement.as_str(), &[]).expect_err(within);
            assert_eq!(refused.state(), SqlState::INVALID_PARAMETER_VALUE, "{refused}");
        }
    }
    let copy = Folder::new("copy");
    database.backup(copy.path()).expect("a backup");
    let path = copy.path().join("MANIFEST");
    // As it is before the end.
    let bytes = fs::read(&path).expect("it is there");
    fs::write(&path, restaged(&bytes, "closed", "copying")).expect("it can be written");
    let refused = Database::open(copy.path()).err().expect("it is not whole");
    assert!(refused.message().contains("the backup, which was interrupted"), "{refused}");
}

/// A manifest with another stage in both copies.
fn restaged(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    for at in [0, 4096] {
        let end = bytes[at..].iter().position(|byte| *byte == 0).expect("copies are padded");
        let text = std::str::from_utf8(&bytes[at..at + end]).expect("text");
        let (body, _) = text.rsplit_once("sum ").expect("a sum");
        assert!(body.contains(from));
        let body = body.replace(from, to);
        let text = format!("{body}sum {:08x}\n", crc32c(body.as_bytes()));
        out[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    out
}

/// Folders without a manifest, as earlier versions wrote them, are read.
#[test]
fn folders_of_the_first_format_are_read() {
    let (_, folder) = made("first", 5, 2);
    fs::remove_file(folder.path().join("MANIFEST")).expect("it is there");
    for path in log_files(folder.path()) {
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[8] = 1;
        bytes[12..16].fill(0);
        bytes[40..48].fill(0);
        let sum = crc32c(&bytes[..64]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        fs::write(&path, bytes).expect("it can be written");
    }
    for path in files(folder.path()).iter().filter(|path| path.ends_with("manifest")) {
        let text = fs::read_to_string(path).expect("text");
        let (body, _) = text.rsplit_once("end ").expect("a sum");
        let body = body.replacen("checkpoint 2", "checkpoint 1", 1);
        fs::write(path, format!("{body}end {:08x}\n", crc32c(body.as_bytes()))).expect("written");
    }
    assert_eq!(rows(folder.path()).expect("it opens"), 5);
    assert!(folder.path().join("MANIFEST").exists());
    assert_eq!(rows(folder.path()).expect("it opens again"), 5);
}
