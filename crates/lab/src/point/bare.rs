//! The same work by hand: a `BTreeMap` of structs, behind a lock only if threads share it.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use super::{Subject, UPDATE_STEP, Work, Worker, check_row, name_of, price_of};
use crate::{Failure, Result};

struct Item {
    name: String,
    amount: i64,
    price: f64,
}

type Map = BTreeMap<u32, Item>;

/// The map.
#[derive(Clone)]
pub struct Bare {
    items: Arc<RwLock<Map>>,
    shared: bool,
}

impl Bare {
    /// An empty map; `shared` if several threads use it.
    pub fn new(shared: bool) -> Self {
        Bare { items: Arc::default(), shared }
    }
}

impl Subject for Bare {
    fn load(&mut self, rows: u32) -> Result<()> {
        let mut items = self.items.write().expect("nobody panics with it");
        items.extend((0..rows).map(|id| (id, item(id))));
        Ok(())
    }

    fn worker(&self) -> Result<Box<dyn Worker>> {
        Ok(Box::new(self.clone()))
    }

    fn totals(&mut self) -> Result<(u64, u64)> {
        let items = self.items.read().expect("nobody panics with it");
        let updates = items.values().map(|item| (item.amount / UPDATE_STEP) as u64).sum();
        Ok((items.len() as u64, updates))
    }
}

impl Worker for Bare {
    /// Alone, the lock is taken once per batch and so costs nothing; shared, once per row.
    fn work(&mut self, work: Work, ids: &[u32]) -> Result<()> {
        let portion = if self.shared { 1 } else { ids.len() };
        for ids in ids.chunks(portion) {
            if work == Work::Select {
                let items = self.items.read().expect("nobody panics with it");
                ids.iter().try_for_each(|id| select(&items, *id))?;
            } else {
                let mut items = self.items.write().expect("nobody panics with it");
                ids.iter().try_for_each(|id| change(&mut items, work, *id))?;
            }
        }
        Ok(())
    }
}

fn item(id: u32) -> Item {
    let name = name_of(id);
    let name = std::str::from_utf8(&name).expect("letters").to_owned();
    Item { name, amount: i64::from(id), price: price_of(id) }
}

fn missing(id: u32) -> Failure {
    Failure::WrongAnswer(format!("row {id} is missing"))
}

fn select(items: &Map, id: u32) -> Result<()> {
    let item = items.get(&id).ok_or_else(|| missing(id))?;
    check_row(id, item.name.as_bytes(), item.amount, item.price)
}

fn change(items: &mut Map, work: Work, id: u32) -> Result<()> {
    if work == Work::Update {
        items.get_mut(&id).ok_or_else(|| missing(id))?.amount += UPDATE_STEP;
        return Ok(());
    }
    match items.insert(id, item(id)) {
        None => Ok(()),
        Some(_) => Err(Failure::WrongAnswer(format!("row {id} was there already"))),
    }
}
