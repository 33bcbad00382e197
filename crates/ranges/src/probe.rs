//! The side of a join that looks for rows: pairs, what conditions leave of them, and the rows that become of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use datafusion::common::{JoinType, Result, internal_err};

use crate::build::{Build, least};
use crate::code::codes;
use crate::plan::{Condition, Source, batch_of, value};

/// Rows of the left side that are looked at in a step, whether they give pairs or not.
pub(crate) const LOOKS_MAX: usize = 1 << 16;

/// Pairs: rows of a batch that looks, and numbers of rows of the left side. Number 0: no row.
#[derive(Debug, Default)]
struct Pairs {
    probe: Vec<u32>,
    build: Vec<u32>,
}

impl Pairs {
    fn push(&mut self, probe: u32, build: u32) {
        self.probe.push(probe);
        self.build.push(build);
    }

    fn len(&self) -> usize {
        self.probe.len()
    }
}

/// What a row of a batch may find: places from the first to the second, of rows with so great a number.
type Reach = (u32, u32, u128);

/// A batch that looks, as far as it has got.
pub(crate) struct Probe {
    build: Arc<Build>,
    batch: Option<RecordBatch>,
    /// By row.
    reaches: Vec<Reach>,
    /// Whether pairs of the batch are asked the whole condition.
    is_asked_all: bool,
    /// By bound: where its last end was.
    hints: Vec<usize>,
    /// The row that is next, and the place that is; 0: the first of its reach.
    row: usize,
    place: usize,
    /// By row: whether it has a match.
    matched: Vec<bool>,
    /// Rows for which was said whether they have a match.
    told: usize,
    /// If one match of a row of the left side is enough, by place: how many places from there on have one, or fewer.
    skips: Vec<u32>,
}

impl Probe {
    pub(crate) fn new(build: &Arc<Build>) -> Self {
        let join = &build.join;
        Probe {
            build: Arc::clone(build),
            batch: None,
            reaches: Vec::new(),
            is_asked_all: false,
            hints: vec![0; join.bounds.len()],
            row: 0,
            place: 0,
            matched: Vec::new(),
            told: 0,
            skips: if join.asks_build_rows_once() { vec![0; build.rows()] } else { Vec::new() },
        }
    }

    /// The left side.
    pub(crate) fn build(&self) -> &Arc<Build> {
        &self.build
    }

    /// Begins with a batch. Errors: those of keys.
    pub(crate) fn set(&mut self, batch: RecordBatch) -> Result<()> {
        let groups = self.build.groups(&batch)?;
        self.is_asked_all = !self.build.has_order || self.reach(&batch, groups.clone()).is_err();
        if self.is_asked_all {
            let all = groups.into_iter().map(|group| (group.start as u32, group.end as u32, 0));
            self.reaches.clear();
            self.reaches.extend(all);
        }
        self.matched.clear();
        self.matched.resize(batch.num_rows(), false);
        (self.row, self.place, self.told) = (0, 0, 0);
        self.batch = Some(batch);
        Ok(())
    }

    /// Finds what rows may find in their groups. Errors: those of expressions.
    fn reach(&mut self, batch: &RecordBatch, mut ranges: Vec<Range<usize>>) -> Result<()> {
        let join = &self.build.join;
        for (bound, hint) in join.bounds.iter().zip(&mut self.hints) {
            let codes = codes(&value(&bound.probe, batch)?)?;
            for (range, code) in ranges.iter_mut().zip(codes) {
                match code {
                    Some(code) => self.build.narrow(range, bound, code, hint),
                    None => *range = 0..0,
                }
            }
        }
        let mut least_numbers = vec![Some(0); batch.num_rows()];
        if let Some((_, bound)) = &join.second {
            let codes = codes(&value(&bound.probe, batch)?)?;
            least_numbers = codes.into_iter().map(|code| least(bound, code)).collect();
        }
        let reaches = ranges.into_iter().zip(least_numbers).map(|(range, least)| match least {
            Some(least) => (range.start as u32, range.end as u32, least),
            None => (0, 0, 0),
        });
        self.reaches.clear();
        self.reaches.extend(reaches);
        Ok(())
    }

    /// Whether rows of the batch have not looked to their end.
    pub(crate) fn has_more(&self) -> bool {
        self.batch.is_some()
    }

    /// The rows of the next pairs of the batch, at most `rows_max` but for those without a match; `None` if these give
    /// none, and there may be more ([`Probe::has_more`]): the caller lets others run between two pieces.
    pub(crate) fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        use JoinType::{
            Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
        };
        let Some(batch) = self.batch.take() else { return Ok(None) };
        let pairs = self.pairs(rows_max);
        let pairs = self.restricted(&batch, pairs)?;
        if self.build.join.gives_build_rows() {
            for &number in &pairs.build {
                let place = number as usize - 1;
                self.build.visit(place);
                if let Some(skip) = self.skips.get_mut(place) {
                    *skip = (*skip).max(1);
                }
            }
        }
        let given = match self.build.join.kind {
            Inner | Left => pairs,
            Right | Full => self.with_unmatched(pairs),
            LeftSemi | LeftAnti | LeftMark => Pairs::default(),
            RightSemi => self.rows_told(pairs, Some(true)),
            RightAnti => self.rows_told(pairs, Some(false)),
            RightMark => self.rows_told(pairs, None),
        };
        let rows = match given.len() {
            0 => None,
            _ => Some(self.output(&batch, &given)?),
        };
        if self.row < batch.num_rows() {
            self.batch = Some(batch);
        }
        Ok(rows)
    }

    /// What pairs are asked.
    fn condition(&self) -> Option<&Condition> {
        match self.is_asked_all {
            true => Some(&self.build.join.whole),
            false => self.build.join.rest.as_ref(),
        }
    }

    /// The next pairs that keep the bounds: at most `rows_max`, among [`LOOKS_MAX`] rows of the left side.
    fn pairs(&mut self, rows_max: usize) -> Pairs {
        let mut pairs = Pairs::default();
        let build = Arc::clone(&self.build);
        let is_asked = self.condition().is_some();
        let asks_once = build.join.asks_probe_rows_once();
        let heights = build.heights.as_ref().filter(|_| !self.is_asked_all);
        let mut looks = LOOKS_MAX;
        while self.row < self.reaches.len() {
            let (start, end, least) = self.reaches[self.row];
            let end = end as usize;
            let mut place = self.place.max(start as usize);
            let is_told = asks_once && self.matched[self.row];
            while place < end && !is_told {
                if looks == 0 || pairs.len() >= rows_max {
                    self.place = place;
                    return pairs;
                }
                let mut found = self.unmatched(place, &mut looks);
                if let Some(heights) = heights.filter(|_| found == place) {
                    found = heights.next(place..end, least, &mut looks);
                }
                // Where the search ends is looked at like any other place.
                if found > place {
                    place = found;
                    continue;
                }
                looks = looks.saturating_sub(1);
                pairs.push(self.row as u32, place as u32 + 1);
                if !is_asked && asks_once {
                    break;
                }
                if !is_asked && let Some(skip) = self.skips.get_mut(place) {
                    *skip = (*skip).max(1);
                }
                place += 1;
            }
            self.place = 0;
            self.row += 1;
            if looks == 0 || pairs.len() >= rows_max {
                return pairs;
            }
        }
        pairs
    }

    /// The first place from this one on whose row may have no match yet.
    fn unmatched(&mut self, place: usize, looks: &mut usize) -> usize {
        let mut at = place;
        while *looks > 0 && self.skips.get(at).is_some_and(|&skip| skip > 0) {
            *looks -= 1;
            at += self.skips[at] as usize;
        }
        if at > place {
            self.skips[place] = (at - place) as u32;
        }
        at
    }

    /// The pairs for which a condition is true.
    fn restricted(&self, batch: &RecordBatch, pairs: Pairs) -> Result<Pairs> {
        let Some(condition) = self.condition() else { return Ok(pairs) };
        if pairs.len() == 0 {
            return Ok(pairs);
        }
        let columns = condition.columns.iter().map(|&source| self.column(batch, source, &pairs));
        let rows = batch_of(&condition.schema, columns.collect::<Result<_>>()?, pairs.len())?;
        let held = value(&condition.expr, &rows)?;
        let Some(held) = held.as_boolean_opt() else {
            return internal_err!("a join's condition is of type {}", held.data_type());
        };
        let mut kept = Pairs::default();
        for (at, is_held) in held.iter().enumerate() {
            if is_held == Some(true) {
                kept.push(pairs.probe[at], pairs.build[at]);
            }
        }
        Ok(kept)
    }

    /// The pairs, and between them the rows that have looked to their end and have no match.
    fn with_unmatched(&mut self, pairs: Pairs) -> Pairs {
        pairs.probe.iter().for_each(|&row| self.matched[row as usize] = true);
        let mut all = Pairs::default();
        let mut rest = pairs.probe.iter().zip(&pairs.build).peekable();
        for row in self.told..self.row {
            if !self.matched[row] {
                all.push(row as u32, 0);
            }
            while let Some((&probe, &build)) = rest.next_if(|&(&probe, _)| probe == row as u32) {
                all.push(probe, build);
            }
        }
        rest.for_each(|(&probe, &build)| all.push(probe, build));
        self.told = self.row;
        all
    }

    /// The rows that have looked to their end, and have a match or none; `None`: all of them.
    fn rows_told(&mut self, pairs: Pairs, matched: Option<bool>) -> Pairs {
        pairs.probe.iter().for_each(|&row| self.matched[row as usize] = true);
        let rows = self.told..self.row;
        let rows = rows.filter(|&row| matched.is_none_or(|matched| self.matched[row] == matched));
        let probe: Vec<u32> = rows.map(|row| row as u32).collect();
        self.told = self.row;
        Pairs { build: vec![0; probe.len()], probe }
    }

    fn output(&self, batch: &RecordBatch, pairs: &Pairs) -> Result<RecordBatch> {
        let join = &self.build.join;
        let columns = join.output.iter().map(|&source| self.column(batch, source, pairs));
        batch_of(&join.schema, columns.collect::<Result<_>>()?, pairs.len())
    }

    /// A column of pairs.
    fn column(&self, batch: &RecordBatch, source: Source, pairs: &Pairs) -> Result<ArrayRef> {
        match source {
            Source::Build(column) => self.build.column(column, &pairs.build),
            Source::Probe(column) => {
                let column = batch.column(column);
                let is_whole = pairs.len() == column.len()
                    && pairs.probe.iter().enumerate().all(|(at, &row)| at == row as usize);
                if is_whole {
                    return Ok(Arc::clone(column));
                }
                Ok(take(column, &UInt32Array::from(pairs.probe.clone()), None)?)
            }
            Source::Mark => {
                let marks = pairs.probe.iter().map(|&row| Some(self.matched[row as usize]));
                Ok(Arc::new(marks.collect::<BooleanArray>()))
            }
        }
    }
}

/// The rows of the left side that are given once all have looked.
pub(crate) struct Leftover {
    build: Arc<Build>,
    /// The next place.
    place: usize,
}

impl Leftover {
    pub(crate) fn new(build: Arc<Build>) -> Self {
        Leftover { build, place: 0 }
    }

    /// Whether there are rows that have not been looked at.
    pub(crate) fn has_more(&self) -> bool {
        self.place < self.build.rows()
    }

    /// The next rows, at most `rows_max`; `None` if the next [`LOOKS_MAX`] rows give none, and there may be more
    /// ([`Leftover::has_more`]).
    pub(crate) fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        let Some(wanted) = self.build.join.leftover() else {
            self.place = self.build.rows();
            return Ok(None);
        };
        let end = self.build.rows().min(self.place + LOOKS_MAX);
        let mut numbers = Vec::with_capacity(rows_max.min(self.build.rows()));
        while self.place < end && numbers.len() < rows_max {
            if wanted.is_none_or(|wanted| self.build.was_visited(self.place) == wanted) {
                numbers.push(self.place as u32 + 1);
            }
            self.place += 1;
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        let marks = numbers.iter().map(|&number| Some(self.build.was_visited(number as usize - 1)));
        let marks: BooleanArray = marks.collect();
        self.build.left_alone(&numbers, Arc::new(marks)).map(Some)
    }
}
