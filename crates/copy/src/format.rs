//! Options of COPY.

use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::syntax::HEADER_MATCH;

/// How rows are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Format {
    Text,
    Csv,
    Binary,
    Parquet,
}

/// What the first line of texts and CSV is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// A row.
    #[default]
    Absent,
    /// Names, which COPY FROM passes over.
    Present,
    /// Names, which must be those of the columns.
    Match,
}

/// Options of a COPY, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How rows are written down.
    pub format: Format,
    /// Between columns.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// What the first line is.
    pub header: Header,
    /// Around values that need it.
    pub quote: u8,
    /// Before a quote inside quotes.
    pub escape: u8,
    /// Columns that are always quoted; `*` is all.
    pub force_quote: Vec<String>,
    /// Columns whose unquoted NULL text is text.
    pub force_not_null: Vec<String>,
    /// Columns whose quoted NULL text is NULL.
    pub force_null: Vec<String>,
}

impl Options {
    /// Reads both spellings of options. Errors: 42601, 0A000, 22023.
    pub(super) fn from_ast(
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
        to: bool,
    ) -> Result<Options> {
        let mut wish = Wish::default();
        for option in options {
            wish.take(option)?;
        }
        for option in legacy {
            wish.take_legacy(option)?;
        }
        wish.finish(to)
    }
}

#[derive(Default)]
struct Wish {
    format: Option<Format>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Header,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Vec<String>,
    force_not_null: Vec<String>,
    force_null: Vec<String>,
}

fn names(idents: &[Ident]) -> Vec<String> {
    idents.iter().map(fold).collect()
}

impl Wish {
    fn take(&mut self, option: &CopyOption) -> Result<()> {
        match option {
            CopyOption::Format(format) if format.value == HEADER_MATCH => {
                self.header = Header::Match;
            }
            CopyOption::Format(format) => {
                self.format = Some(match fold(format).as_str() {
                    "text" => Format::Text,
                    "csv" => Format::Csv,
                    "binary" => Format::Binary,
                    "parquet" => Format::Parquet,
                    other => {
                        return Err(SqlError::new(
                            SqlState::INVALID_PARAMETER_VALUE,
                            format!("COPY format \"{other}\" not recognized"),
                        ));
                    }
                });
            }
            CopyOption::Freeze(_) => {}
            CopyOption::Delimiter(delimiter) => self.delimiter = Some(*delimiter),
            CopyOption::Null(null) => self.null = Some(null.clone()),
            CopyOption::Header(header) => {
                self.header = if *header { Header::Present } else { Header::Absent };
            }
            CopyOption::Quote(quote) => self.quote = Some(*quote),
            CopyOption::Escape(escape) => self.escape = Some(*escape),
            CopyOption::ForceQuote(columns) => self.force_quote = names(columns),
            CopyOption::ForceNotNull(columns) => self.force_not_null = names(columns),
            CopyOption::ForceNull(columns) => self.force_null = names(columns),
            CopyOption::Encoding(encoding) => {
                let plain = encoding.to_ascii_lowercase().replace(['-', '_'], "");
                if plain != "utf8" && plain != "unicode" {
                    return Err(SqlError::unsupported(format!("encoding \"{encoding}\""))
                        .hint("Text is UTF-8."));
                }
            }
        }
        Ok(())
    }

    fn take_legacy(&mut self, option: &CopyLegacyOption) -> Result<()> {
        match option {
            CopyLegacyOption::Binary => self.format = Some(Format::Binary),
            CopyLegacyOption::Parquet => self.format = Some(Format::Parquet),
            CopyLegacyOption::Header => self.header = Header::Present,
            CopyLegacyOption::Delimiter(delimiter) => self.delimiter = Some(*delimiter),
            CopyLegacyOption::Null(null) => self.null = Some(null.clone()),
            CopyLegacyOption::Csv(options) => {
                self.format = Some(Format::Csv);
                for option in options {
                    match option {
                        CopyLegacyCsvOption::Header => self.header = Header::Present,
                        CopyLegacyCsvOption::Quote(quote) => self.quote = Some(*quote),
                        CopyLegacyCsvOption::Escape(escape) => self.escape = Some(*escape),
                        CopyLegacyCsvOption::ForceQuote(columns) => {
                            self.force_quote = names(columns);
                        }
                        CopyLegacyCsvOption::ForceNotNull(columns) => {
                            self.force_not_null = names(columns);
                        }
                    }
                }
            }
            other => return Err(SqlError::unsupported(format!("the COPY option {other}"))),
        }
        Ok(())
    }

    fn finish(self, to: bool) -> Result<Options> {
        let format = self.format.unwrap_or(Format::Text);
        let csv = format == Format::Csv;
        let bad = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        let only_csv = [
            ("QUOTE", self.quote.is_some()),
            ("ESCAPE", self.escape.is_some()),
            ("FORCE_QUOTE", !self.force_quote.is_empty()),
            ("FORCE_NOT_NULL", !self.force_not_null.is_empty()),
            ("FORCE_NULL", !self.force_null.is_empty()),
        ];
        if let (false, Some((name, _))) = (csv, only_csv.iter().find(|(_, given)| *given)) {
            return Err(SqlError::unsupported(format!("COPY {name} outside CSV mode")));
        }
        if to && self.header == Header::Match {
            return Err(SqlError::unsupported("\"match\" with HEADER in COPY TO"));
        }
        if !to && !self.force_quote.is_empty() {
            return Err(SqlError::unsupported("COPY FORCE_QUOTE with COPY FROM"));
        }
        let byte = |name: &str, given: Option<char>, default: u8| match given {
            None => Ok(default),
            Some(c) if c.is_ascii() && c != '\n' && c != '\r' => Ok(c as u8),
            Some(_) => Err(bad(format!("COPY {name} must be a single one-byte character"))),
        };
        let delimiter = byte("delimiter", self.delimiter, if csv { b',' } else { b'\t' })?;
        let quote = byte("quote", self.quote, b'"')?;
        let escape = byte("escape", self.escape, quote)?;
        if csv && delimiter == quote {
            return Err(bad("COPY delimiter and quote must be different".to_owned()));
        }
        if !csv && delimiter == b'\\' {
            return Err(bad("COPY delimiter cannot be \"\\\"".to_owned()));
        }
        let null = self.null.unwrap_or_else(|| if csv { "" } else { "\\N" }.to_owned());
        if null.contains(['\n', '\r']) {
            return Err(bad("COPY null representation cannot use newline".to_owned()));
        }
        Ok(Options {
            format,
            delimiter,
            null,
            header: self.header,
            quote,
            escape,
            force_quote: self.force_quote,
            force_not_null: self.force_not_null,
            force_null: self.force_null,
        })
    }
}
