//! Options of sequences, and of the sequences of identities.

use std::fmt;

use datafusion::sql::sqlparser::ast::{DataType, ObjectName};
use datafusion::sql::sqlparser::parser::Parser;

use super::reader::Reader;
use crate::error::{Result, SqlError, SqlState};

/// What ALTER SEQUENCE says; `None` means it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SequenceOptions {
    /// AS type.
    pub data_type: Option<DataType>,
    /// INCREMENT BY.
    pub increment: Option<i64>,
    /// MINVALUE; inner `None` is NO MINVALUE.
    pub min: Option<Option<i64>>,
    /// MAXVALUE; inner `None` is NO MAXVALUE.
    pub max: Option<Option<i64>>,
    /// START WITH.
    pub start: Option<i64>,
    /// RESTART; inner `None` is the start value.
    pub restart: Option<Option<i64>>,
    /// CYCLE or NO CYCLE.
    pub cycle: Option<bool>,
    /// OWNED BY: a column, or NONE.
    pub owned_by: Option<ObjectName>,
}

pub(super) fn sequence_option(
    reader: &mut Reader<'_>,
    options: &mut SequenceOptions,
) -> Result<()> {
    if reader.eats("AS") {
        options.data_type = Some(reader.sql(Parser::parse_data_type)?);
    } else if reader.eats("INCREMENT") {
        reader.eats("BY");
        options.increment = Some(reader.signed()?);
    } else if reader.eats("MINVALUE") {
        options.min = Some(Some(reader.signed()?));
    } else if reader.eats("MAXVALUE") {
        options.max = Some(Some(reader.signed()?));
    } else if reader.eats("START") {
        reader.eats("WITH");
        options.start = Some(reader.signed()?);
    } else if reader.eats("RESTART") {
        let number = reader.eats("WITH") || reader.is_at_number();
        options.restart = Some(if number { Some(reader.signed()?) } else { None });
    } else if reader.eats("CACHE") {
        // Positions are handed out one by one; there is nothing to keep ready.
        let count = reader.signed()?;
        if count < 1 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("CACHE ({count}) must be greater than zero"),
            ));
        }
    } else if reader.eats("CYCLE") {
        options.cycle = Some(true);
    } else if reader.eats("NO CYCLE") {
        options.cycle = Some(false);
    } else if reader.eats("NO MINVALUE") {
        options.min = Some(None);
    } else if reader.eats("NO MAXVALUE") {
        options.max = Some(None);
    } else if reader.eats("OWNED BY") {
        options.owned_by = Some(reader.name()?);
    } else {
        return Err(reader.unexpected("an option of a sequence"));
    }
    Ok(())
}

impl SequenceOptions {
    /// The options that are said, each as text with a blank before it.
    pub(super) fn each(&self) -> Vec<String> {
        let mut all = Vec::new();
        let data_type = self.data_type.as_ref();
        all.extend(data_type.map(|data_type| format!(" AS {data_type}")));
        all.extend(self.increment.map(|increment| format!(" INCREMENT BY {increment}")));
        for (word, bound) in [("MINVALUE", self.min), ("MAXVALUE", self.max)] {
            all.extend(bound.map(|bound| match bound {
                Some(bound) => format!(" {word} {bound}"),
                None => format!(" NO {word}"),
            }));
        }
        all.extend(self.start.map(|start| format!(" START WITH {start}")));
        all.extend(self.restart.map(|restart| match restart {
            Some(at) => format!(" RESTART WITH {at}"),
            None => " RESTART".to_owned(),
        }));
        all.extend(self.cycle.map(|cycle| if cycle { " CYCLE" } else { " NO CYCLE" }.to_owned()));
        all.extend(self.owned_by.as_ref().map(|column| format!(" OWNED BY {column}")));
        all
    }
}

impl fmt::Display for SequenceOptions {
    /// With a blank before every option.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.each().iter().try_for_each(|option| f.write_str(option))
    }
}
