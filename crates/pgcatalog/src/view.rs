//! How system relations are declared: a struct for a relation's rows, whose fields are its columns
//! with their types, and the function that gives the rows. A row is made by naming its columns, so a
//! column that is missing, or one that no relation has, does not compile.
//!
//! Views of schema `halcyon` ([`system_views`]) carry the guide's sentences as comments. Relations of
//! PostgreSQL ([`system_tables`]) have columns that are the same in every row of Halcyon; the
//! declaration gives their value, and rows leave them out.

use std::borrow::Cow;

use super::table::{CatalogType, Cell, Def};

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
    const KIND: CatalogType;
    fn cell(self) -> Cell;
}

/// A name of a catalog object: type `name`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name(pub(crate) String);

/// Microseconds since 1970-01-01 UTC: type `timestamp with time zone`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment(pub(crate) i64);

/// Microseconds: type `interval`.
pub(crate) struct Span(pub(crate) i64);

/// An object id: type `oid`.
pub(crate) struct Oid(pub(crate) u32);

/// One letter: type `"char"`.
pub(crate) struct Char(pub(crate) &'static str);

/// Type `text`.
pub(crate) type Text = Cow<'static, str>;

/// Type `text[]`.
pub(crate) type Texts = Vec<String>;

/// Rights: type `aclitem[]`.
pub(crate) struct Acl(pub(crate) Vec<String>);

/// Type `smallint[]`.
pub(crate) struct Int2s(pub(crate) Vec<i64>);

/// Type `int2vector`, whose subscripts begin at 0.
pub(crate) struct Int2Vector(pub(crate) Vec<i64>);

/// Type `oidvector`.
pub(crate) struct Oids(pub(crate) Vec<i64>);

/// Type `oid[]`.
pub(crate) struct OidArray(pub(crate) Vec<i64>);

macro_rules! columns {
    ($($ty:ty => $kind:ident, |$value:ident| $cell:expr;)+) => {
        $(impl Column for $ty {
            const KIND: CatalogType = CatalogType::$kind;

            fn cell(self) -> Cell {
                let $value = self;
                $cell
            }
        })+
    };
}

columns! {
    bool => Bool, |v| Cell::Bool(v);
    i16 => Int2, |v| Cell::Int(v.into());
    i32 => Int4, |v| Cell::Int(v.into());
    u32 => Int4, |v| Cell::Int(v.into());
    i64 => Int8, |v| Cell::Int(v);
    u64 => Int8, |v| Cell::Int(v.try_into().unwrap_or(i64::MAX));
    f32 => Float4, |v| Cell::Float(v.into());
    f64 => Float8, |v| Cell::Float(v);
    &'static str => Text, |v| Cell::Str(v);
    String => Text, |v| Cell::Text(v);
    Text => Text, |v| match v {
        Cow::Borrowed(text) => Cell::Str(text),
        Cow::Owned(text) => Cell::Text(text),
    };
    Name => Name, |v| Cell::Text(v.0);
    Char => Char, |v| Cell::Str(v.0);
    Oid => Oid, |v| Cell::Int(v.0.into());
    Moment => Time, |v| Cell::Int(v.0);
    Span => Span, |v| Cell::Int(v.0);
    Texts => Texts, |v| Cell::Texts(v);
    Acl => Acl, |v| Cell::Texts(v.0);
    Int2s => Int2s, |v| Cell::Ints(v.0);
    Int2Vector => Int2Vector, |v| Cell::Ints(v.0);
    Oids => Oids, |v| Cell::Ints(v.0);
    OidArray => OidArray, |v| Cell::Ints(v.0);
}

impl<T: Column> Column for Option<T> {
    const KIND: CatalogType = T::KIND;

    fn cell(self) -> Cell {
        self.map_or(Cell::Null, T::cell)
    }
}

/// What a column of type `T` may be given: its own values and Rust's nearest ones. Numbers that a
/// column cannot hold become the largest that it can.
pub(crate) trait Fits<T> {
    fn fit(self) -> T;
}

macro_rules! fits {
    ($($from:ty => $to:ty, |$value:ident| $fit:expr;)+) => {
        $(impl Fits<$to> for $from {
            fn fit(self) -> $to {
                let $value = self;
                $fit
            }
        }

        impl Fits<Option<$to>> for Option<$from> {
            fn fit(self) -> Option<$to> {
                self.map(Fits::fit)
            }
        })+
    };
}

fits! {
    bool => bool, |v| v;
    i16 => i16, |v| v;
    usize => i16, |v| v.try_into().unwrap_or(i16::MAX);
    i32 => i32, |v| v;
    i64 => i32, |v| v.try_into().unwrap_or(i32::MAX);
    u32 => i32, |v| v.try_into().unwrap_or(i32::MAX);
    u64 => i32, |v| v.try_into().unwrap_or(i32::MAX);
    usize => i32, |v| v.try_into().unwrap_or(i32::MAX);
    i64 => i64, |v| v;
    u64 => i64, |v| v.try_into().unwrap_or(i64::MAX);
    f64 => f32, |v| v as f32;
    u32 => Oid, |v| Oid(v);
    i64 => Moment, |v| Moment(v);
    i64 => Span, |v| Span(v);
    &'static str => Char, |v| Char(v);
    &str => Name, |v| Name(v.to_owned());
    &String => Name, |v| Name(v.clone());
    String => Name, |v| Name(v);
    &'static str => Text, |v| Cow::Borrowed(v);
    &String => Text, |v| Cow::Owned(v.clone());
    String => Text, |v| Cow::Owned(v);
    Text => Text, |v| v;
    Vec<String> => Texts, |v| v;
    Vec<String> => Acl, |v| Acl(v);
    Vec<i64> => Int2s, |v| Int2s(v);
    Vec<i64> => Int2Vector, |v| Int2Vector(v);
    Vec<i64> => Oids, |v| Oids(v);
    Vec<i64> => OidArray, |v| OidArray(v);
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

/// Declares relations of PostgreSQL: `TABLES`, and a struct per relation for its rows, with the columns
/// that differ from row to row. A relation with the same columns follows after a comma.
macro_rules! system_tables {
    ($(
        $name:ident: $row:ident from $rows:path $(, $other:ident from $others:path)* {
            $($column:ident: $ty:ty $(= $fixed:expr)?,)+
        }
    )+) => {
        $(
            $crate::view::row_struct! { $row {} $($column: $ty $(= $fixed)?,)+ }

            impl $row {
                const COLUMNS: &[(&str, $crate::table::CatalogType)] = &[$((
                    $crate::view::column_name(stringify!($column)),
                    <$ty as $crate::view::Column>::KIND,
                )),+];

                fn write(self, rows: &mut $crate::table::Rows) {
                    rows.push([$($crate::view::cell_of!(self.$column: $ty $(= $fixed)?)),+]);
                }

                fn write_all(all: Vec<$row>, rows: &mut $crate::table::Rows) {
                    all.into_iter().for_each(|row| row.write(rows));
                }
            }
        )+

        /// The relations with their columns.
        pub(super) static TABLES: &[$crate::table::Def] = &[$(
            $crate::view::table_def!($name, $row, $rows),
            $($crate::view::table_def!($other, $row, $others),)*
        )+];
    };
}
pub(crate) use system_tables;

/// The relation `$name` with the rows of `$rows`.
macro_rules! table_def {
    ($name:ident, $row:ident, $rows:path) => {
        $crate::table::Def {
            name: stringify!($name),
            columns: $row::COLUMNS,
            fill: |context, rows| {
                let mut all = Vec::new();
                $rows(context, &mut all);
                $row::write_all(all, rows);
            },
        }
    };
}
pub(crate) use table_def;

/// The struct for the rows of a relation: its columns without those that are the same in all rows.
macro_rules! row_struct {
    ($row:ident { $($field:ident: $field_ty:ty,)* }) => {
        struct $row {
            $($field: $field_ty,)*
        }
    };
    ($row:ident { $($done:tt)* } $column:ident: $ty:ty = $fixed:expr, $($rest:tt)*) => {
        $crate::view::row_struct! { $row { $($done)* } $($rest)* }
    };
    ($row:ident { $($done:tt)* } $column:ident: $ty:ty, $($rest:tt)*) => {
        $crate::view::row_struct! { $row { $($done)* $column: $ty, } $($rest)* }
    };
}
pub(crate) use row_struct;

/// A column's cell in a row: the row's, or the one of all rows.
macro_rules! cell_of {
    ($this:ident.$column:ident: $ty:ty) => {
        <$ty as $crate::view::Column>::cell($this.$column)
    };
    ($this:ident.$column:ident: $ty:ty = $fixed:expr) => {
        <$ty as $crate::view::Column>::cell($fixed)
    };
}
pub(crate) use cell_of;

/// Adds a row to `$rows`: every column that the declaration leaves open with its value.
macro_rules! row {
    ($rows:expr; $row:ident { $($column:ident: $value:expr),+ $(,)? }) => {
        $rows.push($row { $($column: $crate::view::Fits::fit($value)),+ })
    };
}
pub(crate) use row;
