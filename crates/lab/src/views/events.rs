//! Streams of events, packed ahead of time: what every arm of the experiment reads.

/// Type of a stream's column, and how a value is packed into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// BIGINT.
    Int,
    /// DOUBLE PRECISION; the bits.
    Double,
    /// DECIMAL(15, 2); hundredths.
    Money,
    /// DATE; days since 1970-01-01.
    Date,
    /// TEXT; index into [`Events::texts`].
    Text,
}

impl Column {
    /// The type in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Int => "BIGINT",
            Self::Double => "DOUBLE PRECISION",
            Self::Money => "DECIMAL(15, 2)",
            Self::Date => "DATE",
            Self::Text => "TEXT",
        }
    }
}

/// A stream: its name and columns.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Name in SQL.
    pub name: &'static str,
    /// Names and types.
    pub columns: Vec<(&'static str, Column)>,
}

impl Relation {
    /// `name (column type, …)`. Volumes of orders are positive, which bounds thresholds over them.
    pub fn sql(&self) -> String {
        let columns = self.columns.iter().map(|&(name, column)| {
            let check = if name == "volume" { " CHECK (volume > 0)" } else { "" };
            format!("{name} {} NOT NULL{check}", column.sql())
        });
        format!("{} ({})", self.name, columns.collect::<Vec<_>>().join(", "))
    }
}

/// An insert or delete of one row.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Index into [`Events::relations`].
    pub relation: usize,
    /// +1 or −1.
    pub weight: i64,
    /// The row, a word per column.
    pub row: &'a [u64],
}

/// Events in order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The streams.
    pub relations: Vec<Relation>,
    /// The strings of text columns.
    pub texts: Vec<String>,
    heads: Vec<(u32, u8, i8)>,
    words: Vec<u64>,
}

impl Events {
    /// No events of these streams.
    pub fn new(relations: Vec<Relation>) -> Self {
        Self { relations, ..Self::default() }
    }

    /// Adds an event. Panics if the row has not the columns of its stream.
    pub fn push(&mut self, relation: usize, weight: i64, row: &[u64]) {
        assert_eq!(row.len(), self.relations[relation].columns.len(), "a word per column");
        let start = u32::try_from(self.words.len() / 2).expect("events fit into 64 GiB");
        self.heads.push((start, relation as u8, weight as i8));
        self.words.extend_from_slice(row);
        if self.words.len() % 2 == 1 {
            self.words.push(0);
        }
    }

    /// The number of a text, which is the same for the same text.
    pub fn text(&mut self, text: &str) -> u64 {
        // A handful of codes of TPC-H's columns: flags, modes, priorities, segments, types.
        let known = self.texts.iter().position(|known| known == text);
        let number = known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        number as u64
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The event at an index.
    pub fn get(&self, index: usize) -> Event<'_> {
        let (start, relation, weight) = self.heads[index];
        let relation = usize::from(relation);
        let start = start as usize * 2;
        let row = &self.words[start..start + self.relations[relation].columns.len()];
        Event { relation, weight: i64::from(weight), row }
    }

    /// Index into [`Events::relations`] of the event at an index.
    pub fn relation(&self, index: usize) -> usize {
        usize::from(self.heads[index].1)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The same events `times` times, one pass after the other: rows are then there several times.
    pub fn repeated(&self, times: usize) -> Events {
        let mut all = Events::new(self.relations.clone());
        all.texts.clone_from(&self.texts);
        for _ in 0..times {
            self.iter().for_each(|event| all.push(event.relation, event.weight, event.row));
        }
        all
    }

    /// Keeps the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.heads.truncate(count);
    }

    /// The events of the streams that are read, and how many of them are among the first `warm`.
    pub fn read(mut self, warm: usize, is_read: impl Fn(&str) -> bool) -> (Self, usize) {
        let kept: Vec<bool> = self.relations.iter().map(|one| is_read(one.name)).collect();
        let is_kept = |head: &(u32, u8, i8)| kept[usize::from(head.1)];
        let warm = self.heads[..warm].iter().filter(|head| is_kept(head)).count();
        self.heads.retain(is_kept);
        (self, warm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read_in_order() {
        let columns = vec![("a", Column::Int), ("b", Column::Double), ("c", Column::Text)];
        let mut events = Events::new(vec![
            Relation { name: "r", columns },
            Relation { name: "s", columns: vec![("a", Column::Int)] },
        ]);
        let text = events.text("x");
        assert_eq!((text, events.text("y"), events.text("x")), (0, 1, 0));
        events.push(0, 1, &[7, 8, text]);
        events.push(1, -1, &[9]);
        let twice = events.repeated(2);
        let seen: Vec<_> =
            twice.iter().map(|event| (event.relation, event.weight, event.row.to_vec())).collect();
        let once = [(0, 1, vec![7, 8, 0]), (1, -1, vec![9])];
        assert_eq!(seen, [once.clone(), once].concat());
        assert_eq!(
            events.relations[0].sql(),
            "r (a BIGINT NOT NULL, b DOUBLE PRECISION NOT NULL, c TEXT NOT NULL)"
        );
    }
}
