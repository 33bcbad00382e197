//! Undoing what a journal tells of.

use std::collections::BTreeSet;
use std::io;

use halcyon_machine::topology;

use crate::fs::ResctrlFs;
use crate::journal::{Journal, Note};
use crate::rules::masks_of;

/// What undoing has left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// What others have made their own, which stays.
    pub theirs: Vec<String>,
    /// What could not be undone, and can be tried again.
    pub failed: Vec<String>,
}

impl Left {
    /// All that stays.
    pub fn all(self) -> Vec<String> {
        self.theirs.into_iter().chain(self.failed).collect()
    }
}

enum Stays {
    Theirs(String),
    Failed(String),
}

/// Removes the groups that the notes tell of, last made first; their processors go back to the
/// default group. Returns what stays, and why.
///
/// A group stays if tasks, groups that count or processors of others are in it, or if its masks are
/// no longer what was written. It loses our processors then. Running this twice is as running it once.
pub fn undo(tree: &dyn ResctrlFs, notes: &[Note]) -> Left {
    let mut names: Vec<&str> = Vec::new();
    for name in notes.iter().map(Note::group) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut left = Left::default();
    for name in names.into_iter().rev() {
        let of_group: Vec<&Note> = notes.iter().filter(|note| note.group() == name).collect();
        match undo_group(tree, name, &of_group) {
            Ok(()) => {}
            Err(Stays::Theirs(why)) => left.theirs.push(format!("group {name} stays: {why}")),
            Err(Stays::Failed(why)) => left.failed.push(format!("group {name} stays: {why}")),
        }
    }
    left
}

/// Undoes what an earlier process has left, unless it is still alive. Returns what stays.
///
/// The notes go unless something failed.
pub fn undo_after_crash(
    tree: &dyn ResctrlFs,
    journal: &mut dyn Journal,
    notes: &[Note],
) -> io::Result<Left> {
    let held = tree.lock()?;
    let left = undo(tree, notes);
    drop(held);
    if left.failed.is_empty() {
        journal.clear()?;
    }
    Ok(left)
}

fn undo_group(tree: &dyn ResctrlFs, name: &str, notes: &[&Note]) -> Result<(), Stays> {
    if !tree.folders("").map_err(told)?.iter().any(|folder| folder == name) {
        return Ok(());
    }
    match changed_by_others(tree, name, notes)? {
        None => tree.remove_folder(name).map_err(told),
        Some(why) => {
            let cpus = cpus_of(tree, name)?;
            let theirs: Vec<u32> = cpus.difference(&noted_cpus(notes)).copied().collect();
            if theirs.len() < cpus.len() {
                tree.write(&format!("{name}/cpus_list"), &(list(&theirs) + "\n")).map_err(told)?;
            }
            Err(Stays::Theirs(why))
        }
    }
}

/// What others have changed in a group of ours.
fn changed_by_others(
    tree: &dyn ResctrlFs,
    name: &str,
    notes: &[&Note],
) -> Result<Option<String>, Stays> {
    let tasks = tree.read(&format!("{name}/tasks")).map_err(told)?;
    if !tasks.trim().is_empty() {
        return Ok(Some("tasks were moved into it".to_owned()));
    }
    let counting = tree.folders(&format!("{name}/mon_groups")).unwrap_or_default();
    if !counting.is_empty() {
        return Ok(Some("groups that count were made in it".to_owned()));
    }
    if !cpus_of(tree, name)?.is_subset(&noted_cpus(notes)) {
        return Ok(Some("processors were moved into it".to_owned()));
    }
    // The last note may tell of a change that was never made.
    let made = notes.split_last().map_or(&[][..], |(_, made)| made);
    let line = made.iter().rev().find_map(|note| match note {
        Note::Masks { line, .. } => Some(line),
        _ => None,
    });
    let Some(line) = line else { return Ok(None) };
    let schema = line.split(':').next().unwrap_or_default();
    let schemata = tree.read(&format!("{name}/schemata")).map_err(told)?;
    let same = masks_of(&schemata, schema) == masks_of(line, schema);
    Ok((!same).then(|| "its masks were changed".to_owned()))
}

fn cpus_of(tree: &dyn ResctrlFs, name: &str) -> Result<BTreeSet<u32>, Stays> {
    let text = tree.read(&format!("{name}/cpus_list")).map_err(told)?;
    Ok(topology::list(&text).map_err(told)?.into_iter().collect())
}

fn noted_cpus(notes: &[&Note]) -> BTreeSet<u32> {
    let lists = notes.iter().filter_map(|note| match note {
        Note::Cpus { list, .. } => topology::list(list).ok(),
        _ => None,
    });
    lists.flatten().collect()
}

/// Processors as `cpus_list` takes them.
pub(crate) fn list(cpus: &[u32]) -> String {
    topology::list_text(cpus).replace(", ", ",")
}

fn told(error: io::Error) -> Stays {
    Stays::Failed(error.to_string())
}
