//! A disk in memory that crashes: what was not synced may be there, in part, in any order, or not.
//!
//! What survives a crash:
//! - of a file: what was written before its last sync; of later writes any choice of sectors;
//! - of a folder: its names as of its last sync, and of later changes the first few, in order.
//!
//! Faults: a call, by its number, can be the crash (it and all later ones fail), or fail with an
//! error, alone or with some behind it. A disk without syncs pretends: the canary.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use halcyon_base::rng::Rng;
use halcyon_txn::{File, Storage};

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// There is no room: files do not grow.
    Full,
    /// The crash comes at this call.
    Crash(u64),
    /// So many calls from this one on fail with this error.
    Error {
        from: u64,
        count: u64,
        kind: io::ErrorKind,
    },
}

#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<DiskState>>);

struct DiskState {
    inodes: Vec<Inode>,
    /// What names mean now, and what they would mean after a crash, by folder what was changed.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending: Vec<(String, Rename)>,
    calls: u64,
    fault: Fault,
    syncs: bool,
    dead: bool,
}

#[derive(Clone, Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync: where, and what.
    writes: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum Rename {
    Set(String, usize),
    Gone(String),
    Moved(String, String),
}

fn folder_of(path: &str) -> String {
    path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
}

fn carry_out(names: &mut BTreeMap<String, usize>, change: &Rename) {
    match change {
        Rename::Set(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        Rename::Gone(path) => {
            let below = format!("{path}/");
            names.retain(|name, _| name != path && !name.starts_with(&below));
        }
        Rename::Moved(from, to) => {
            let below = format!("{from}/");
            let moved: Vec<(String, usize)> = names
                .iter()
                .filter(|(name, _)| *name == from || name.starts_with(&below))
                .map(|(name, inode)| (format!("{to}{}", &name[from.len()..]), *inode))
                .collect();
            names.retain(|name, _| name != from && !name.starts_with(&below));
            names.extend(moved);
        }
    }
}

impl SimDisk {
    pub fn new(fault: Fault, syncs: bool) -> Self {
        SimDisk(Arc::new(Mutex::new(DiskState {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            calls: 0,
            fault,
            syncs,
            dead: false,
        })))
    }

    pub fn calls(&self) -> u64 {
        self.0.lock().expect("unpoisoned").calls
    }

    pub fn set_fault(&self, fault: Fault) {
        self.0.lock().expect("unpoisoned").fault = fault;
    }

    /// The disk as it is found after the power came back.
    pub fn after_crash(&self, rng: &mut Rng) -> SimDisk {
        let state = self.0.lock().expect("unpoisoned");
        let mut names = state.durable_names.clone();
        // Each folder keeps the order of its changes.
        let mut open: BTreeMap<&str, bool> = BTreeMap::new();
        for (folder, change) in &state.pending {
            let goes_on = open.entry(folder).or_insert(true);
            *goes_on = *goes_on && rng.chance(1, 2);
            if *goes_on {
                carry_out(&mut names, change);
            }
        }
        let survive = |inode: &Inode| {
            let mut bytes = inode.durable.clone();
            for (offset, written) in &inode.writes {
                for (number, sector) in written.chunks(SECTOR).enumerate() {
                    if rng.chance(1, 2) {
                        put(&mut bytes, offset + number * SECTOR, sector);
                    }
                }
            }
            Inode { now: bytes.clone(), durable: bytes, writes: Vec::new() }
        };
        let inodes = state.inodes.iter().map(survive).collect();
        let found = SimDisk::new(Fault::None, state.syncs);
        let mut new = found.0.lock().expect("unpoisoned");
        (new.inodes, new.durable_names, new.names) = (inodes, names.clone(), names);
        drop(new);
        found
    }

    /// Flips a bit of the file that has the last name in a folder: so many bytes before its last byte
    /// that is not 0.
    pub fn flip_behind(&self, folder: &str, back: usize, rng: &mut Rng) {
        let mut state = self.0.lock().expect("unpoisoned");
        let last = state
            .names
            .iter()
            .rfind(|(name, _)| name.ends_with(".log") && folder_of(name) == folder);
        let inode = *last.expect("a log has a file").1;
        let bytes = &mut state.inodes[inode].now;
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("something is written");
        bytes[end - back] ^= 1 << rng.below(8);
    }

    /// Flips a bit of a file that has one; says where.
    pub fn flip(&self, rng: &mut Rng) -> String {
        let mut state = self.0.lock().expect("unpoisoned");
        let names: Vec<(String, usize)> = state
            .names
            .iter()
            .filter(|(_, inode)| !state.inodes[**inode].now.is_empty())
            .map(|(name, inode)| (name.clone(), *inode))
            .collect();
        let (name, inode) = rng.pick(&names).clone();
        let bytes = &mut state.inodes[inode].now;
        // Rather where something is than in the zeroes behind.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |last| last + 1);
        let at = rng.below(end as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
        format!("{name} at {at} of {end}")
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    if bytes.len() < offset + written.len() {
        bytes.resize(offset + written.len(), 0);
    }
    bytes[offset..offset + written.len()].copy_from_slice(written);
}

impl DiskState {
    /// Counts a call; fails if it is one that fails.
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        if let Fault::Crash(at) = self.fault
            && self.calls >= at
        {
            self.dead = true;
        }
        if self.dead {
            return Err(io::Error::other("the machine is down"));
        }
        match self.fault {
            Fault::Error { from, count, kind } if (from..from + count).contains(&self.calls) => {
                Err(kind.into())
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, folder: String, change: Rename) {
        carry_out(&mut self.names, &change);
        self.pending.push((folder, change));
    }

    fn inode(&self, path: &str) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for SimDisk {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let state = self.0.lock().expect("unpoisoned");
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let rest = state.names.keys().filter_map(|name| name.strip_prefix(&below));
        let mut names: Vec<String> =
            rest.map(|name| name.split('/').next().expect("a part").to_owned()).collect();
        names.dedup();
        Ok(names)
    }

    fn make_folder(&self, _folder: &str) -> io::Result<()> {
        // A folder is there as soon as something is in it.
        self.0.lock().expect("unpoisoned").call()
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn File>> {
        let mut state = self.0.lock().expect("unpoisoned");
        state.call()?;
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.change(folder_of(path), Rename::Set(path.to_owned(), inode));
        Ok(Box::new(SimFile { disk: self.clone(), inode }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn File>> {
        let inode = self.0.lock().expect("unpoisoned").inode(path)?;
        Ok(Box::new(SimFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.0.lock().expect("unpoisoned");
        state.call()?;
        state.change(folder_of(to), Rename::Moved(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.0.lock().expect("unpoisoned");
        state.call()?;
        state.inode(path)?;
        state.change(folder_of(path), Rename::Gone(path.to_owned()));
        Ok(())
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.0.lock().expect("unpoisoned");
        state.call()?;
        state.change(folder_of(folder), Rename::Gone(folder.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        let mut state = self.0.lock().expect("unpoisoned");
        state.call()?;
        if state.syncs {
            let (synced, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut state.pending).into_iter().partition(|(of, _)| of == folder);
            state.pending = rest;
            for (_, change) in &synced {
                carry_out(&mut state.durable_names, change);
            }
        }
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl File for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock().expect("unpoisoned");
        let called = state.call();
        let is_full = matches!(state.fault, Fault::Full);
        let inode = &mut state.inodes[self.inode];
        if is_full && offset as usize + bytes.len() > inode.now.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Also of a write that fails something may have been written.
        put(&mut inode.now, offset as usize, bytes);
        inode.writes.push((offset as usize, bytes.to_vec()));
        called
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let state = self.disk.0.lock().expect("unpoisoned");
        let now = &state.inodes[self.inode].now;
        let found = now.get(offset as usize..offset as usize + bytes.len());
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().expect("unpoisoned").inodes[self.inode].now.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.0.lock().expect("unpoisoned");
        let called = state.call();
        let syncs = state.syncs;
        let inode = &mut state.inodes[self.inode];
        match called {
            Ok(()) if syncs => {
                inode.durable = inode.now.clone();
                inode.writes.clear();
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => {
                // What the kernel could not write it forgets: a second sync would succeed.
                inode.now = inode.durable.clone();
                inode.writes.clear();
                Err(error)
            }
        }
    }
}
