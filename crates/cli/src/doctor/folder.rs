//! Folders of a server: the file systems that they lie on, the room there, and who may read them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use halcyon_machine::conditions::{Conditions, Mount};
use halcyon_machine::volume::{Room, room};

use super::diagnosis::{Diagnosis, Severity};
use super::size::size;

/// File systems whose files are on another machine, or reached through another program.
const FAR: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "ocfs2",
    "gfs2",
];
/// File systems in memory.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs"];
/// Below this part of a file system, in percent, room is short.
const FREE_PERCENT_MIN: u64 = 10;
/// Below this, room is short however large the file system is.
const FREE_BYTES_MIN: u64 = 1 << 30;
/// From this on, room is not short however large the file system is.
const FREE_BYTES_ENOUGH: u64 = 64 << 30;

/// Looks at the folder of the database.
pub fn data(folder: &Path, conditions: &Conditions, found: &mut Diagnosis) {
    let real = match fs::canonicalize(folder) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = format!("{} is not there", folder.display());
            let why = "the server makes it at its start, if it may";
            let remedy = format!("halcyon serve --data {}", folder.display());
            return found.find(Severity::Note, "data folder", what, why, remedy);
        }
        Err(error) => {
            let remedy = "run halcyon doctor as the server's user";
            return found.unknown("data folder", format!("{}: {error}", folder.display()), remedy);
        }
    };
    kept(&real, conditions, found);
    match room(&real) {
        Ok(room) => space(&real, room, found),
        Err(error) => {
            found.unknown("disk space", error.to_string(), format!("df {}", real.display()))
        }
    }
    modes(&real, found);
}

/// Whether the data folder's file system keeps what is written.
fn kept(folder: &Path, conditions: &Conditions, found: &mut Diagnosis) {
    let about = "data folder";
    let Some(mount) = conditions.mount_of(folder) else {
        let remedy = format!("findmnt --target {}", folder.display());
        return found.unknown(about, "its file system is not known", remedy);
    };
    let Mount { place, kind, .. } = mount;
    let what = |which: &str| format!("{} lies on {which} ({})", folder.display(), place.display());
    let elsewhere = "choose a folder on a local disk (--data)";
    if IN_MEMORY.contains(&kind.as_str()) {
        let why = "the database is gone once the machine starts again, and takes memory twice";
        found.find(Severity::Error, about, what(kind), why, elsewhere);
    } else if mount.has("nobarrier") || mount.has("barrier=0") {
        let why = "commits that were acknowledged are lost when the power fails";
        let remedy = format!("mount -o remount,barrier {}", place.display());
        found.find(Severity::Error, about, what(&format!("{kind} without barriers")), why, remedy);
    } else if mount.has("ro") {
        let why = "no commit can be written";
        let remedy = format!("mount -o remount,rw {}", place.display());
        found.find(Severity::Error, about, what(&format!("{kind}, read-only")), why, remedy);
    } else if FAR.contains(&kind.as_str()) || kind.starts_with("fuse.") {
        let why = "a commit waits for the network, and a server whose file system goes away refuses commits until a \
                   restart; locks there do not always keep a second server out";
        found.find(Severity::Warning, about, what(kind), why, elsewhere);
    } else if kind == "overlay" {
        let why = "it goes with the container, and its first writes copy whole files";
        let remedy = format!("mount a volume at {}", folder.display());
        found.find(Severity::Warning, about, what("the container's layer"), why, remedy);
    } else {
        found.fine(about);
    }
}

/// Whether there is room for the log and the next checkpoint.
fn space(folder: &Path, room: Room, found: &mut Diagnosis) {
    let remedy = format!("df -h {0}; df -i {0}", folder.display());
    let share = room.bytes / 100 * FREE_PERCENT_MIN;
    let short = room.free_bytes < FREE_BYTES_MIN
        || (room.free_bytes < share && room.free_bytes < FREE_BYTES_ENOUGH);
    if short {
        let what = format!(
            "{} of {} are free at {}",
            size(room.free_bytes),
            size(room.bytes),
            folder.display()
        );
        let why = "a checkpoint is written beside the last one, and on a full disk commits are refused (53100)";
        let severity = if room.free_bytes < 64 << 20 { Severity::Error } else { Severity::Warning };
        found.find(severity, "disk space", what, why, &remedy);
    } else {
        found.fine("disk space");
    }
    if room.files > 0 && room.free_files < 1_000 {
        let what = format!("{} of {} files can still be made", room.free_files, room.files);
        let why = "the log and checkpoints are files; without them commits are refused (53100)";
        found.find(Severity::Warning, "files of the disk", what, why, remedy);
    } else {
        found.fine("files of the disk");
    }
}

/// Whether the folder and all in it are for their owner alone.
fn modes(folder: &Path, found: &mut Diagnosis) {
    let mut open = Vec::new();
    let mut strange = Vec::new();
    let owner = match fs::metadata(folder) {
        Ok(metadata) => metadata.uid(),
        Err(error) => return found.unknown("modes of the data folder", error.to_string(), "ls -l"),
    };
    let looked = walk(folder, &mut |path, metadata| {
        if metadata.mode() & 0o077 != 0 {
            open.push(path.to_owned());
        }
        if metadata.uid() != owner {
            strange.push(path.to_owned());
        }
    });
    let about = "modes of the data folder";
    let named = |paths: &[PathBuf]| {
        let more =
            if paths.len() > 1 { format!(" and {} more", paths.len() - 1) } else { String::new() };
        format!("{}{more}", paths[0].display())
    };
    if let Err(error) = looked {
        let remedy = "run halcyon doctor as the server's user";
        found.unknown(about, format!("not all of it can be read: {error}"), remedy);
    }
    if !open.is_empty() {
        let what = format!("others than the owner may enter or read {}", named(&open));
        let why = "who reads the files reads every table and the verifiers of all passwords";
        found.find(Severity::Error, about, what, why, format!("chmod -R go= {}", folder.display()));
    }
    if !strange.is_empty() {
        let what = format!("{} belong to another user than the folder", named(&strange));
        let why = "the server cannot read or replace them";
        let remedy = format!("chown -R {owner} {}", folder.display());
        found.find(Severity::Warning, about, what, why, remedy);
    }
    if open.is_empty() && strange.is_empty() {
        found.fine(about);
    }
}

/// Shows a folder and all in it, but for what links lead to. Errors: the first one, once all else is shown.
fn walk(path: &Path, show: &mut dyn FnMut(&Path, &fs::Metadata)) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Ok(());
    }
    show(path, &metadata);
    if !metadata.is_dir() {
        return Ok(());
    }
    let mut result = Ok(());
    for entry in fs::read_dir(path)? {
        match entry.and_then(|entry| walk(&entry.path(), show)) {
            // Files of a log and of checkpoints go while a server runs.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if result.is_ok() => result = Err(error),
            _ => {}
        }
    }
    result
}

/// Looks at the folder that statements spill into.
pub fn spill(folder: &Path, conditions: &Conditions, found: &mut Diagnosis) {
    let about = "spill folder";
    let Ok(real) = fs::canonicalize(folder) else {
        let what = format!("{} is not there", folder.display());
        let why = "the server makes it at its start, if it may, and does not start if it may not";
        let remedy = format!("install -d -m 700 {}", folder.display());
        return found.find(Severity::Note, about, what, why, remedy);
    };
    let remedy = "choose a folder on a local disk (--spill)";
    match conditions.mount_of(&real) {
        None => found.unknown(
            about,
            "its file system is not known",
            format!("findmnt --target {}", real.display()),
        ),
        Some(mount) if IN_MEMORY.contains(&mount.kind.as_str()) => {
            let what =
                format!("{} lies on {} ({})", real.display(), mount.kind, mount.place.display());
            let why = "what statements cannot hold in memory goes to memory all the same, where no limit counts it";
            found.find(Severity::Warning, about, what, why, remedy);
        }
        Some(mount) if FAR.contains(&mount.kind.as_str()) => {
            let what =
                format!("{} lies on {} ({})", real.display(), mount.kind, mount.place.display());
            found.find(
                Severity::Note,
                about,
                what,
                "large sorts and joins wait for the network",
                remedy,
            );
        }
        Some(_) => match room(&real) {
            Ok(room) if room.free_bytes < FREE_BYTES_MIN => {
                let what = format!("{} are free at {}", size(room.free_bytes), real.display());
                let why = "large sorts and joins are refused (53100) once it is full";
                found.find(Severity::Warning, about, what, why, remedy);
            }
            _ => found.fine(about),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder for its owner alone, with a file; it goes away with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("halcyon-doctor-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("log")).expect("made");
            fs::write(path.join("log/1"), "").expect("written");
            let folder = Folder(fs::canonicalize(path).expect("there"));
            for (path, mode) in [("", 0o700), ("log", 0o700), ("log/1", 0o600)] {
                folder.set(path, mode);
            }
            folder
        }

        fn set(&self, path: &str, mode: u32) {
            fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(mode)).expect("set");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn on(kind: &str, options: &str) -> Conditions {
        let mount = Mount { place: "/".into(), kind: kind.into(), options: options.into() };
        Conditions { mounts: Some(vec![mount]), ..Conditions::default() }
    }

    fn looked(look: impl Fn(&mut Diagnosis)) -> Diagnosis {
        let mut found = Diagnosis::default();
        look(&mut found);
        found
    }

    #[test]
    fn file_systems_that_do_not_keep_what_is_written_are_found() {
        use Severity::{Error, Unknown, Warning};
        let folder = Folder::new("mounts");
        let cases: &[(&str, &str, &[Severity])] = &[
            ("ext4", "rw,relatime", &[]),
            ("tmpfs", "rw", &[Error]),
            ("ext4", "rw,nobarrier", &[Error]),
            ("xfs", "ro", &[Error]),
            ("nfs4", "rw", &[Warning]),
            ("fuse.sshfs", "rw", &[Warning]),
            ("overlay", "rw", &[Warning]),
        ];
        for (kind, options, severities) in cases {
            let found = looked(|found| data(&folder.0, &on(kind, options), found));
            assert_eq!(found.severities("data folder"), *severities, "{kind} {options}");
        }
        let found = looked(|found| data(&folder.0, &Conditions::default(), found));
        assert_eq!(found.severities("data folder"), [Unknown]);
    }

    #[test]
    fn what_others_may_read_is_found_with_the_command_that_mends_it() {
        let folder = Folder::new("modes");
        let examined = || looked(|found| data(&folder.0, &on("ext4", "rw"), found));
        assert!(examined().severities("modes of the data folder").is_empty());
        folder.set("log/1", 0o640);
        folder.set("log", 0o755);
        let found = examined();
        let [finding] = found.about("modes of the data folder")[..] else { panic!("{found:#?}") };
        assert_eq!(finding.severity, Severity::Error);
        assert!(finding.what.contains("/log and 1 more"), "{finding:?}");
        assert_eq!(finding.remedy, format!("chmod -R go= {}", folder.0.display()));
    }

    #[test]
    fn short_room_is_found_by_bytes_and_by_files() {
        let gib = 1 << 30;
        let room = |free_bytes, bytes, free_files| Room {
            free_bytes,
            bytes,
            free_files,
            files: 1_000_000,
        };
        let told = |room| {
            let found = looked(|found| space(Path::new("/data"), room, found));
            [found.severities("disk space"), found.severities("files of the disk")].concat()
        };
        assert_eq!(told(room(50 * gib, 100 * gib, 5_000)), []);
        assert_eq!(told(room(100 * gib, 2_000 * gib, 5_000)), []);
        assert_eq!(told(room(5 * gib, 100 * gib, 5_000)), [Severity::Warning]);
        assert_eq!(told(room(1 << 20, gib, 10)), [Severity::Error, Severity::Warning]);
        let without_count = Room { files: 0, ..room(50 * gib, 100 * gib, 0) };
        assert_eq!(told(without_count), []);
    }

    #[test]
    fn a_spill_folder_in_memory_is_found_and_one_that_is_missing_is_made_later() {
        let folder = Folder::new("spill");
        let told = |kind, path: &Path| {
            looked(|found| spill(path, &on(kind, "rw"), found)).severities("spill folder")
        };
        assert_eq!(told("tmpfs", &folder.0), [Severity::Warning]);
        assert_eq!(told("nfs", &folder.0), [Severity::Note]);
        assert_eq!(told("ext4", &folder.0.join("none")), [Severity::Note]);
        let found = looked(|found| data(&folder.0.join("none"), &on("ext4", "rw"), found));
        assert_eq!(found.severities("data folder"), [Severity::Note]);
    }
}
