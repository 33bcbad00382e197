//! SQL's types: how they are spelled, stored, shown to DataFusion and named on the wire.

use arrow::datatypes::{DataType, Field};
use halcyon_store::{ArrowType, Type};

/// A column's or parameter's SQL type.
///
/// `Char` is stored without trailing blanks, so that comparison ignores them as the standard
/// asks. Lengths count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs)]
pub enum SqlType {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Real,
    Double,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Char(Option<u32>),
    Varchar(Option<u32>),
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    /// A text that is well formed.
    Json,
    /// A document, stored as `halcyon_json::binary` says.
    Jsonb,
}

/// Metadata key of an Arrow field that carries a type Arrow cannot tell (`uuid`, `bpchar`, …).
pub const TYPE_KEY: &str = "halcyon.type";

/// Metadata key of an Arrow field of a system table or function whose PostgreSQL type is none of
/// [`SqlType`]: the type's name (`name`, `"char"` as `char`, `int2vector`, `aclitem[]`, `void`, …).
pub const PG_TYPE_KEY: &str = "pg.type";

/// Metadata key of a field that holds object ids: the name of PostgreSQL's type (`oid`, `regclass`, …).
pub const OID_ALIAS_KEY: &str = "pg.oid_alias";

impl SqlType {
    /// Whether values are documents.
    pub fn is_document(self) -> bool {
        matches!(self, SqlType::Json | SqlType::Jsonb)
    }

    /// How values lie in a segment.
    pub fn storage(self) -> Type {
        match self {
            SqlType::Boolean => Type::Bool,
            SqlType::SmallInt => Type::Int16,
            SqlType::Integer => Type::Int32,
            SqlType::BigInt => Type::Int64,
            SqlType::Real => Type::Float32,
            SqlType::Double => Type::Float64,
            SqlType::Decimal { precision, scale } => Type::Decimal { precision, scale },
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text | SqlType::Json => Type::Text,
            SqlType::Bytea | SqlType::Jsonb => Type::Bytes,
            SqlType::Date => Type::Date,
            SqlType::Time => Type::Time,
            SqlType::Timestamp => Type::Timestamp,
            SqlType::TimestampTz => Type::TimestampTz,
            SqlType::Interval => Type::Interval,
            SqlType::Uuid => Type::Uuid,
        }
    }

    /// The Arrow type of a vector of this type. `json` and `jsonb` have types that no other has, so that
    /// every expression tells them from texts and bytes.
    pub fn arrow(self) -> DataType {
        match self {
            SqlType::Json => DataType::LargeUtf8,
            SqlType::Jsonb => DataType::LargeBinary,
            other => other.storage().arrow(),
        }
    }

    /// The Arrow type of a vector as programs and clients read it: documents are texts.
    pub fn shown_arrow(self) -> DataType {
        match self {
            SqlType::Json | SqlType::Jsonb => DataType::Utf8View,
            other => other.arrow(),
        }
    }

    /// The Arrow field of a column of this type; metadata names what Arrow cannot tell.
    pub fn field(self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.arrow(), nullable);
        field.with_metadata([(TYPE_KEY.to_owned(), self.to_string())].into())
    }

    /// `pg_type.typlen`: bytes of a fixed-width type, -1 of others.
    pub fn length(self) -> i16 {
        match self {
            SqlType::Boolean => 1,
            SqlType::SmallInt => 2,
            SqlType::Integer | SqlType::Real | SqlType::Date => 4,
            SqlType::BigInt
            | SqlType::Double
            | SqlType::Time
            | SqlType::Timestamp
            | SqlType::TimestampTz => 8,
            SqlType::Interval | SqlType::Uuid => 16,
            SqlType::Decimal { .. }
            | SqlType::Char(_)
            | SqlType::Varchar(_)
            | SqlType::Text
            | SqlType::Bytea
            | SqlType::Json
            | SqlType::Jsonb => -1,
        }
    }

    /// Object id of the type of arrays of this type.
    pub fn array_oid(self) -> u32 {
        match self {
            SqlType::Json => 199,
            SqlType::Boolean => 1000,
            SqlType::Bytea => 1001,
            SqlType::SmallInt => 1005,
            SqlType::Integer => 1007,
            SqlType::Text => 1009,
            SqlType::Char(_) => 1014,
            SqlType::Varchar(_) => 1015,
            SqlType::BigInt => 1016,
            SqlType::Real => 1021,
            SqlType::Double => 1022,
            SqlType::Timestamp => 1115,
            SqlType::Date => 1182,
            SqlType::Time => 1183,
            SqlType::TimestampTz => 1185,
            SqlType::Interval => 1187,
            SqlType::Decimal { .. } => 1231,
            SqlType::Uuid => 2951,
            SqlType::Jsonb => 3807,
        }
    }

    /// Object id in PostgreSQL's `pg_type`.
    pub fn oid(self) -> u32 {
        match self {
            SqlType::Boolean => 16,
            SqlType::Bytea => 17,
            SqlType::BigInt => 20,
            SqlType::SmallInt => 21,
            SqlType::Integer => 23,
            SqlType::Text => 25,
            SqlType::Json => 114,
            SqlType::Real => 700,
            SqlType::Double => 701,
            SqlType::Char(_) => 1042,
            SqlType::Varchar(_) => 1043,
            SqlType::Date => 1082,
            SqlType::Time => 1083,
            SqlType::Timestamp => 1114,
            SqlType::TimestampTz => 1184,
            SqlType::Interval => 1186,
            SqlType::Decimal { .. } => 1700,
            SqlType::Uuid => 2950,
            SqlType::Jsonb => 3802,
        }
    }
}

impl std::fmt::Display for SqlType {
    /// PostgreSQL's spelling, as `format_type` gives it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SqlType::Boolean => f.write_str("boolean"),
            SqlType::SmallInt => f.write_str("smallint"),
            SqlType::Integer => f.write_str("integer"),
            SqlType::BigInt => f.write_str("bigint"),
            SqlType::Real => f.write_str("real"),
            SqlType::Double => f.write_str("double precision"),
            SqlType::Decimal { precision, scale } => write!(f, "numeric({precision},{scale})"),
            SqlType::Char(Some(n)) => write!(f, "character({n})"),
            SqlType::Char(None) => f.write_str("character"),
            SqlType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            SqlType::Varchar(None) => f.write_str("character varying"),
            SqlType::Text => f.write_str("text"),
            SqlType::Bytea => f.write_str("bytea"),
            SqlType::Date => f.write_str("date"),
            SqlType::Time => f.write_str("time without time zone"),
            SqlType::Timestamp => f.write_str("timestamp without time zone"),
            SqlType::TimestampTz => f.write_str("timestamp with time zone"),
            SqlType::Interval => f.write_str("interval"),
            SqlType::Uuid => f.write_str("uuid"),
            SqlType::Json => f.write_str("json"),
            SqlType::Jsonb => f.write_str("jsonb"),
        }
    }
}
