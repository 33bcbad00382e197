//! How a view of schema `halcyon` is declared: a struct for its rows, whose fields are the columns
//! and whose comments are the guide's sentences, and the function that gives the rows. Columns of
//! `pg_catalog`, which PostgreSQL prescribes, stand in tables instead ([`mod@super::table`]).

use super::table::{Cell, Def, Kind};

/// A view of schema `halcyon`.
pub(crate) struct View {
    /// What a row is.
    pub(crate) about: &'static str,
    /// What each column says, in order.
    pub(crate) meanings: &'static [&'static str],
    pub(crate) def: Def,
}

/// A type that a column may have.
pub(crate) trait Column {
    const KIND: Kind;
    fn cell(self) -> Cell;
}

/// A name of a catalog object: type `name`.
pub(crate) struct Name(pub(crate) String);

/// Microseconds since 1970-01-01 UTC: type `timestamp with time zone`.
pub(crate) struct Moment(pub(crate) i64);

macro_rules! columns {
    ($($ty:ty => $kind:ident, |$value:ident| $cell:expr;)+) => {
        $(impl Column for $ty {
            const KIND: Kind = Kind::$kind;

            fn cell(self) -> Cell {
                let $value = self;
                Cell::from($cell)
            }
        })+
    };
}

columns! {
    bool => Bool, |v| v;
    u32 => Int4, |v| v;
    u64 => Int8, |v| v;
    f64 => Float8, |v| v;
    &'static str => Text, |v| v;
    String => Text, |v| v;
    Name => Name, |v| v.0;
    Moment => Time, |v| v.0;
}

impl<T: Column> Column for Option<T> {
    const KIND: Kind = T::KIND;

    fn cell(self) -> Cell {
        self.map_or(Cell::Null, T::cell)
    }
}

/// The name of a column, where Rust wants `r#` before it.
pub(crate) const fn column_name(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(name) => name,
            Err(_) => panic!("the rest of an identifier is text"),
        },
        _ => field,
    }
}

/// Declares all views: `VIEWS`, and a struct per view for its rows.
macro_rules! system_views {
    ($(
        $(#[doc = $about:literal])+
        $name:ident: $row:ident from $rows:path {
            $($(#[doc = $meaning:literal])+ $column:ident: $ty:ty,)+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            struct $row {
                $($(#[doc = $meaning])+ $column: $ty,)+
            }

            impl $row {
                fn write(self, rows: &mut $crate::table::Rows) {
                    rows.push([$($crate::view::Column::cell(self.$column)),+]);
                }
            }
        )+

        /// The views of schema `halcyon`.
        pub(crate) static VIEWS: &[$crate::view::View] = &[$(
            $crate::view::View {
                about: concat!($($about),+),
                meanings: &[$(concat!($($meaning),+)),+],
                def: $crate::table::Def {
                    name: stringify!($name),
                    columns: &[$((
                        $crate::view::column_name(stringify!($column)),
                        <$ty as $crate::view::Column>::KIND,
                    )),+],
                    fill: |context, rows| {
                        let all: Vec<$row> = $rows(context);
                        all.into_iter().for_each(|row| row.write(rows));
                    },
                },
            },
        )+];
    };
}
pub(crate) use system_views;
