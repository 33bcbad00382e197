//! Enumerations: types whose values are labels, in an order of their own.
//!
//! A value is the *position* of its label, so that values compare as integers do, in vectors, keys and
//! segments. Between positions lie gaps, into which `ALTER TYPE … ADD VALUE … BEFORE` puts labels; a label
//! keeps its position when it is renamed.
//!
//! Labels are needed wherever a value is read or shown, far from any catalog. So an enumeration is registered
//! under an [`EnumId`] for as long as a catalog has it ([`Enumeration`]); the id means nothing in another
//! process and is never stored. What transactions see of a change is the catalog's business: the registry has
//! what is committed.
//!
//! Vectors have an Arrow type of their own ([`crate::types::SqlType::arrow`]): seconds in a time zone that nobody
//! else writes so ([`EnumId::zone`]). There are [`ALIVE_MAX`] such time zones, and so as many enumerations at a
//! time; one that is free again is the last to be taken again.
//! Invariants, checked by `an_enumeration_is_known_as_long_as_it_lives` and `every_place_has_a_zone_of_its_own`:
//! an id is used once; two living enumerations have two time zones.
//! Cost: a comparison of a counter for a thread that reads or shows values of one enumeration; a lock when it
//! goes over to another.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::error::{Result, SqlError, SqlState};
use crate::identifier::quote_ident;

/// Object ids from here on are enumerations' and their arrays'. Catalogs count from 16,384 up and come nowhere
/// near.
const FIRST: u32 = 1 << 30;

/// Distance of the positions of labels that were given together. Halved as often as 32 times, it leaves room.
const GAP: i64 = 1 << 32;

/// What begins the name by which a statement's text speaks of an enumeration that has been found.
const MARK: &str = "enum ";

/// Hours of an offset, less the last one, which has as many minutes as a clock shows.
const HOURS: usize = 23;
/// Places that are written `+HHMM` and `-HHMM`, with up to 99 minutes.
const PLAIN_PLACES: usize = 2 * (HOURS * 100 + 60);
/// Places that are written `+HH:MM` and `-HH:MM`, with 60 to 99 minutes, which no clock shows.
const COLON_PLACES: usize = 2 * HOURS * 40;
/// Most enumerations that there may be at a time in one process.
pub const ALIVE_MAX: usize = PLAIN_PLACES + COLON_PLACES;

/// Longest label, as PostgreSQL has it.
pub const LABEL_BYTES_MAX: usize = 63;

/// An enumeration of this process: the object id that clients are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnumId(u32);

/// A label and its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// What users write.
    pub text: String,
    /// What is stored.
    pub position: i64,
}

/// What is known of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// Name of its schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Its labels by ascending position.
    pub labels: Arc<[Label]>,
    /// Places in `labels`, by text.
    by_text: Box<[u32]>,
}

/// An enumeration that a catalog has. Nobody knows its id any more when the last owner has dropped it.
#[derive(Debug)]
pub struct Enumeration {
    id: EnumId,
    /// Whether all sessions may see it.
    is_published: AtomicBool,
}

/// Definitions by number of id.
static LIVING: LazyLock<RwLock<HashMap<u32, Arc<Definition>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU32 = AtomicU32::new(FIRST);
/// The number of the id that had a time zone last, by place.
static TENANTS: [AtomicU32; ALIVE_MAX] = [const { AtomicU32::new(0) }; ALIVE_MAX];
/// Grows with every change of `LIVING`.
static CHANGES: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// What this thread has looked up last, and at which count of changes.
    static LAST: RefCell<(u32, u64, Arc<Definition>)> = RefCell::default();
}

fn change(of: impl FnOnce(&mut HashMap<u32, Arc<Definition>>)) {
    of(&mut LIVING.write().unwrap_or_else(PoisonError::into_inner));
    CHANGES.fetch_add(1, Ordering::Release);
}

impl Enumeration {
    /// Registers an enumeration under an id of its own. Errors: 54000 beyond [`ALIVE_MAX`].
    pub fn new(definition: Definition) -> Result<Arc<Self>> {
        let mut found = None;
        change(|living| {
            for _ in 0..ALIVE_MAX {
                let id = EnumId(NEXT.fetch_add(2, Ordering::Relaxed));
                let tenant = &TENANTS[id.place()];
                if !living.contains_key(&tenant.load(Ordering::Relaxed)) {
                    tenant.store(id.0, Ordering::Release);
                    living.insert(id.0, Arc::new(definition));
                    found = Some(id);
                    break;
                }
            }
        });
        let id = found.ok_or_else(|| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many enumerations")
                .detail(format!("A process has room for {ALIVE_MAX}."))
        })?;
        Ok(Arc::new(Enumeration { id, is_published: AtomicBool::new(false) }))
    }

    /// Its id.
    pub fn id(&self) -> EnumId {
        self.id
    }

    /// Whether all sessions may see it: it was not made by a transaction that has not committed.
    pub fn is_published(&self) -> bool {
        self.is_published.load(Ordering::Acquire)
    }

    /// Notes that all sessions may see it, with this definition.
    pub fn publish(&self, definition: Definition) {
        self.define(definition);
        self.is_published.store(true, Ordering::Release);
    }

    /// Puts another definition in the place of the one that is known.
    pub fn define(&self, definition: Definition) {
        if *self.id.definition() != definition {
            change(|living| drop(living.insert(self.id.0, Arc::new(definition))));
        }
    }
}

impl Drop for Enumeration {
    fn drop(&mut self) {
        change(|living| drop(living.remove(&self.id.0)));
    }
}

impl EnumId {
    /// The id with this number, whether or not it is known.
    pub(crate) fn numbered(number: u32) -> Self {
        EnumId(number)
    }

    /// What stands for an enumeration in stored catalogs: the catalog's own number of it, which is less than
    /// 2^29.
    pub fn stored(oid: u32) -> Self {
        EnumId(FIRST + 2 * oid)
    }

    /// The inverse of [`EnumId::stored`].
    pub fn of_stored(self) -> u32 {
        (self.0 - FIRST) / 2
    }

    /// The enumeration with this object id; `None` if there is none.
    pub fn living(oid: u32) -> Option<Self> {
        let is_known = || LIVING.read().unwrap_or_else(PoisonError::into_inner).contains_key(&oid);
        (oid >= FIRST && is_known()).then_some(EnumId(oid))
    }

    /// Whether an object id is one of an enumeration or its arrays.
    pub(crate) fn is_one(oid: u32) -> bool {
        oid >= FIRST
    }

    /// Its object id.
    pub fn oid(self) -> u32 {
        self.0
    }

    /// Object id of the type of its arrays.
    pub fn array_oid(self) -> u32 {
        self.0 + 1
    }

    /// The enumeration whose arrays have this object id; `None` if there is none.
    pub fn of_array_oid(oid: u32) -> Option<Self> {
        EnumId::living(oid.checked_sub(1)?)
    }

    /// What is known of it; one without a name and labels if it has been dropped.
    pub fn definition(self) -> Arc<Definition> {
        let changes = CHANGES.load(Ordering::Acquire);
        LAST.with_borrow_mut(|last| {
            if (last.0, last.1) != (self.0, changes) {
                let living = LIVING.read().unwrap_or_else(PoisonError::into_inner);
                *last = (self.0, changes, living.get(&self.0).cloned().unwrap_or_default());
            }
            Arc::clone(&last.2)
        })
    }

    /// The name by which a statement's text speaks of it once it has been found.
    pub(crate) fn mark(self) -> String {
        format!("{MARK}{}", self.0)
    }

    /// The inverse of [`EnumId::mark`]; `None` for other names.
    pub(crate) fn of_mark(name: &str) -> Option<Self> {
        name.strip_prefix(MARK)?.parse().ok().map(EnumId)
    }

    /// The place of its time zone.
    fn place(self) -> usize {
        ((self.0 - FIRST) / 2) as usize % ALIVE_MAX
    }

    /// The time zone that marks vectors of its values ([`crate::types::SqlType::arrow`]): one that Arrow can
    /// read, as it does to show a value in a message, in a spelling that nothing else makes.
    pub(crate) fn zone(self) -> Arc<str> {
        zone_at(self.place()).into()
    }

    /// The inverse of [`EnumId::zone`]; `None` for time zones of moments.
    pub(crate) fn of_zone(zone: &str) -> Option<Self> {
        match TENANTS[place_of(zone)?].load(Ordering::Acquire) {
            0 => None,
            id => Some(EnumId(id)),
        }
    }
}

/// The enumeration whose labels the values of an Arrow type are; `None` for other types.
pub fn of_arrow(ty: &DataType) -> Option<EnumId> {
    match ty {
        DataType::Timestamp(TimeUnit::Second, Some(zone)) => EnumId::of_zone(zone),
        _ => None,
    }
}

/// Whether the values of an Arrow type are labels.
pub fn is_label(ty: &DataType) -> bool {
    of_arrow(ty).is_some()
}

/// Whether the values of an Arrow type are dates or timestamps.
pub fn is_day_or_moment(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Date64) || is_moment(ty)
}

/// Whether the values of an Arrow type are timestamps.
pub fn is_moment(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(..)) && !is_label(ty)
}

/// Whether the values of an Arrow type are timestamps with a time zone.
pub fn is_zoned_moment(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, Some(_))) && !is_label(ty)
}

fn zone_at(place: usize) -> String {
    let (place, colon) = match place.checked_sub(PLAIN_PLACES) {
        Some(place) => (place, ":"),
        None => (place, ""),
    };
    let sign = if place % 2 == 0 { '+' } else { '-' };
    let (hours, minutes) = match colon {
        ":" => (place / 2 / 40, 60 + place / 2 % 40),
        _ => (place / 2 / 100, place / 2 % 100),
    };
    format!("{sign}{hours:02}{colon}{minutes:02}")
}

/// The inverse of [`zone_at`].
fn place_of(zone: &str) -> Option<usize> {
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (0, &zone[1..]),
        b'-' => (1, &zone[1..]),
        _ => return None,
    };
    let number = |digits: &str| -> Option<usize> {
        (digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| digits.parse().ok())?
    };
    let place = match rest.split_once(':') {
        Some((hours, minutes)) => {
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            (hours < HOURS && minutes >= 60)
                .then(|| PLAIN_PLACES + 2 * (hours * 40 + minutes - 60))?
        }
        None => {
            let (hours, minutes) = (number(rest.get(..2)?)?, number(rest.get(2..)?)?);
            let place = hours * 100 + minutes;
            (2 * place < PLAIN_PLACES).then_some(2 * place)?
        }
    };
    Some(place + sign)
}

impl Definition {
    /// A definition. `labels` stand in the order of their positions.
    pub fn new(schema: &str, name: &str, labels: &[Label]) -> Self {
        let mut by_text: Vec<u32> = (0..labels.len() as u32).collect();
        by_text.sort_by_key(|at| &labels[*at as usize].text);
        Definition {
            schema: schema.to_owned(),
            name: name.to_owned(),
            labels: labels.into(),
            by_text: by_text.into(),
        }
    }

    /// The name as `format_type` shows it.
    pub fn shown(&self) -> String {
        match self.schema.as_str() {
            _ if self.name.is_empty() => "???".to_owned(),
            "public" => quote_ident(&self.name),
            schema => format!("{}.{}", quote_ident(schema), quote_ident(&self.name)),
        }
    }

    /// The position of a label; `None` if there is no such label.
    pub fn find(&self, label: &str) -> Option<i64> {
        let text = |at: &u32| self.labels[*at as usize].text.as_str();
        let at = self.by_text.binary_search_by_key(&label, text).ok()?;
        Some(self.labels[self.by_text[at] as usize].position)
    }

    /// The position of a label. Errors: 22P02.
    pub fn position(&self, label: &str) -> Result<i64> {
        self.find(label).ok_or_else(|| {
            let shown = self.shown();
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input value for enum {shown}: \"{label}\""),
            )
        })
    }

    /// The label at a position; a question mark for positions that no label has.
    pub fn label(&self, position: i64) -> &str {
        match self.labels.binary_search_by_key(&position, |label| label.position) {
            Ok(at) => &self.labels[at].text,
            Err(_) => "?",
        }
    }
}

/// Labels in the order of their texts, none of which stands twice.
pub fn labels(texts: Vec<String>) -> Vec<Label> {
    let position = |at: usize| (at as i64 + 1) * GAP;
    let label = |(at, text)| Label { text, position: position(at) };
    texts.into_iter().enumerate().map(label).collect()
}

/// A position before the label at place `at`; behind all of them if `at` is their number. `None`: the gap is
/// used up.
pub fn position_before(labels: &[Label], at: usize) -> Option<i64> {
    let before = at.checked_sub(1).map_or(0, |before| labels[before].position);
    let Some(after) = labels.get(at) else { return before.checked_add(GAP) };
    let middle = before + (after.position - before) / 2;
    (middle > before).then_some(middle)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn moods() -> Definition {
        let texts = ["sad", "ok", "happy"].map(str::to_owned);
        Definition::new("public", "mood", &labels(texts.into()))
    }

    #[test]
    fn an_enumeration_is_known_as_long_as_it_lives() {
        let [first, second] = [(); 2].map(|()| Enumeration::new(moods()).expect("room"));
        assert_ne!(first.id(), second.id());
        let id = first.id();
        assert_eq!(EnumId::living(id.oid()), Some(id));
        assert_eq!(EnumId::of_array_oid(id.array_oid()), Some(id));
        assert_eq!(EnumId::of_mark(&id.mark()), Some(id));
        assert_eq!(id.definition().shown(), "mood");
        first.define(Definition::new("s", "Mood", &[]));
        assert_eq!(id.definition().shown(), "s.\"Mood\"");
        assert_eq!(second.id().definition().shown(), "mood");
        drop(first);
        assert_eq!(EnumId::living(id.oid()), None);
        assert_eq!(id.definition().shown(), "???");
        assert_eq!(EnumId::of_mark("+00:00"), None);
    }

    #[test]
    fn every_place_has_a_zone_of_its_own() {
        use arrow::array::timezone::Tz;
        let mut zones = BTreeSet::new();
        for place in 0..ALIVE_MAX {
            let zone = zone_at(place);
            assert!(zone.parse::<Tz>().is_ok(), "Arrow cannot read {zone}");
            assert_eq!(place_of(&zone), Some(place), "{zone}");
            assert!(zones.insert(zone));
        }
        for moment in
            ["+00:00", "-05:30", "+23:59", "UTC", "Europe/Berlin", "+05", "+2360", "", "+é:99"]
        {
            assert_eq!(place_of(moment), None, "{moment}");
        }
    }

    #[test]
    fn zones_are_taken_again_and_never_by_two() {
        let mut kept = Vec::new();
        let full = loop {
            match Enumeration::new(moods()) {
                Ok(one) => kept.push(one),
                Err(full) => break full,
            }
        };
        assert_eq!(full.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
        let zones: BTreeSet<_> = kept.iter().map(|one| one.id().zone()).collect();
        assert_eq!(zones.len(), kept.len());
        let gone = kept.pop().expect("many").id();
        assert_eq!(EnumId::of_zone(&gone.zone()), Some(gone), "until another has its place");
        let next = Enumeration::new(moods()).expect("one place is free");
        assert_eq!((next.id().zone(), next.id() == gone), (gone.zone(), false));
        assert_eq!(EnumId::of_zone(&gone.zone()), Some(next.id()));
    }

    #[test]
    fn labels_have_positions_in_their_order() {
        let moods = moods();
        let positions: Vec<i64> = ["sad", "ok", "happy"]
            .iter()
            .map(|label| moods.position(label).expect("a label"))
            .collect();
        assert!(positions.is_sorted());
        assert_eq!(moods.label(positions[1]), "ok");
        assert_eq!(moods.label(7), "?");
        let refused = moods.position("Sad").expect_err("labels have cases");
        assert_eq!(refused.state(), SqlState::INVALID_TEXT_REPRESENTATION);
    }

    #[test]
    fn gaps_take_labels_until_they_are_used_up() {
        let mut labels = moods().labels.to_vec();
        let mut added = 0;
        while let Some(position) = position_before(&labels, 1) {
            labels.insert(1, Label { text: format!("n{added}"), position });
            added += 1;
        }
        assert_eq!(added, 32);
        assert!(labels.is_sorted_by_key(|label| label.position));
        assert!(position_before(&labels, labels.len()).is_some());
        assert!(position_before(&labels, 0).is_some());
        assert_eq!(position_before(&[], 0), Some(GAP));
    }
}
