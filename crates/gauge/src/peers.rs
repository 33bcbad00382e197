//! Programs beside this one that the lab builds from its own sources when they are first needed,
//! in `~/.cache/halcyon` (or `$HALCYON_CACHE`).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// Files of a program: path and text.
pub type Sources = [(&'static str, &'static str)];

/// The folder in which programs and their dependencies are kept.
pub fn cache() -> PathBuf {
    match std::env::var_os("HALCYON_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
            home.join(".cache/halcyon")
        }
    }
}

/// Whether a command exists and succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

/// The folder of a program; a change of its sources gives another folder.
pub fn folder(name: &str, sources: &Sources) -> PathBuf {
    let mark = sources
        .iter()
        .flat_map(|(_, text)| text.bytes())
        .fold(0_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    cache().join(format!("{name}-{mark:016x}"))
}

/// Writes sources into a folder.
pub fn unpack(folder: &Path, sources: &Sources) -> Result<()> {
    for (name, text) in sources {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("it is within the folder"))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_source_has_another_folder() {
        let first = folder("peer", &[("a", "one"), ("b", "two")]);
        assert_eq!(first, folder("peer", &[("a", "one"), ("b", "two")]));
        assert_ne!(first, folder("peer", &[("a", "one"), ("b", "too")]));
    }

    #[test]
    fn sources_are_written_with_their_folders() {
        let folder = std::env::temp_dir().join(format!("halcyon-peers-{}", std::process::id()));
        unpack(&folder, &[("Cargo.toml", "[package]"), ("src/main.rs", "fn main() {}")]).unwrap();
        let text = std::fs::read_to_string(folder.join("src/main.rs")).unwrap();
        assert_eq!(text, "fn main() {}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
