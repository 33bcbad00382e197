//! SQL's types: how they are spelled, stored, shown to DataFusion and named on the wire.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use halcyon_store::{ArrowType, Type};
use halcyon_value::{decimal, network};

use crate::enums::EnumId;

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
    /// An address of a host, with its network, stored as `halcyon_value::network` says.
    Inet,
    /// An address of a network.
    Cidr,
    /// An address of a network card: six bytes.
    MacAddr,
    /// An array of one dimension, stored as `halcyon_value::array` says.
    Array(Element),
    /// A label of an enumeration, stored as its position.
    Enum(EnumId),
    /// An object id, in parameters alone: columns of object ids are those of system tables.
    Oid,
}

/// Object id of the type of object ids.
const OID: u32 = 26;

/// The type of an array's elements: any [`SqlType`] but an array, as PostgreSQL writes types down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Element {
    /// Object id of the type.
    oid: u32,
    /// Its length, or its digits and digits behind the point; -1 without.
    modifier: i32,
}

impl Element {
    /// The element type. `None`: arrays of arrays are no type of a column.
    pub fn of(ty: SqlType) -> Option<Self> {
        let length = |length: Option<u32>| length.map_or(-1, |length| length as i32);
        let modifier = match ty {
            SqlType::Array(_) => return None,
            SqlType::Char(n) | SqlType::Varchar(n) => length(n),
            SqlType::Decimal { precision, scale } => {
                i32::from(precision) << 8 | i32::from(scale as u8)
            }
            _ => -1,
        };
        Some(Element { oid: ty.oid(), modifier })
    }

    /// Object id of the type.
    pub fn oid(self) -> u32 {
        self.oid
    }

    /// An object id, which is stored as an integer.
    pub const OID: Element = Element { oid: OID, modifier: -1 };

    /// The type of an element.
    pub fn ty(self) -> SqlType {
        let length = u32::try_from(self.modifier).ok();
        if self == Element::OID {
            return SqlType::Integer;
        }
        if EnumId::is_one(self.oid) {
            return SqlType::Enum(EnumId::numbered(self.oid));
        }
        match SqlType::of_oid(self.oid).expect("made of a type") {
            SqlType::Char(_) => SqlType::Char(length),
            SqlType::Varchar(_) => SqlType::Varchar(length),
            SqlType::Decimal { .. } => SqlType::Decimal {
                precision: (self.modifier >> 8) as u8,
                scale: self.modifier as u8 as i8,
            },
            other => other,
        }
    }

    /// Object id of the type of arrays of such elements.
    pub fn array_oid(self) -> u32 {
        if self == Element::OID { 1028 } else { self.ty().array_oid() }
    }

    /// The Arrow field of the items of a list.
    pub fn item(self) -> FieldRef {
        Arc::new(Field::new_list_field(self.ty().arrow(), true))
    }
}

/// Metadata key of an Arrow field that carries a type Arrow cannot tell (`uuid`, `bpchar`, …).
pub const TYPE_KEY: &str = "halcyon.type";

/// Metadata key of an Arrow field of a system table or function whose PostgreSQL type is none of
/// [`SqlType`]: the type's name (`name`, `"char"` as `char`, `int2vector`, `aclitem[]`, `void`, …).
pub const PG_TYPE_KEY: &str = "pg.type";

/// Metadata key of a field that holds object ids: the name of PostgreSQL's type (`oid`, `regclass`, …).
pub const OID_ALIAS_KEY: &str = "pg.oid_alias";

impl SqlType {
    /// NUMERIC that names no digits. PostgreSQL keeps any number of them; a fixed layout has to choose. Values are
    /// shown as [`decimal::shown`] says, and no digits are told of the type, also where they were declared.
    pub const UNCONSTRAINED: SqlType =
        SqlType::Decimal { precision: decimal::DIGITS_MAX, scale: decimal::FREE_PLACES };

    /// Whether values are documents.
    pub fn is_document(self) -> bool {
        matches!(self, SqlType::Json | SqlType::Jsonb)
    }

    /// Whether values are addresses of a network.
    pub fn is_address(self) -> bool {
        matches!(self, SqlType::Inet | SqlType::Cidr | SqlType::MacAddr)
    }

    /// The type of arrays of this type. `None`: for arrays.
    pub fn array_of(self) -> Option<Self> {
        Element::of(self).map(SqlType::Array)
    }

    /// The type of the elements. `None`: not an array.
    pub fn element(self) -> Option<Self> {
        match self {
            SqlType::Array(element) => Some(element.ty()),
            _ => None,
        }
    }

    /// Whether programs and clients read values as texts, although they are stored otherwise.
    pub fn is_shown_as_text(self) -> bool {
        self.is_address() || matches!(self, SqlType::Jsonb | SqlType::Array(_) | SqlType::Enum(_))
    }

    /// How values lie in a segment.
    pub fn storage(self) -> Type {
        match self {
            SqlType::Boolean => Type::Bool,
            SqlType::SmallInt => Type::Int16,
            SqlType::Integer | SqlType::Oid => Type::Int32,
            SqlType::BigInt => Type::Int64,
            SqlType::Real => Type::Float32,
            SqlType::Double => Type::Float64,
            SqlType::Decimal { precision, scale } => Type::Decimal { precision, scale },
            SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Text | SqlType::Json => Type::Text,
            SqlType::Bytea
            | SqlType::Jsonb
            | SqlType::Array(_)
            | SqlType::Inet
            | SqlType::Cidr
            | SqlType::MacAddr => Type::Bytes,
            SqlType::Date => Type::Date,
            SqlType::Time => Type::Time,
            SqlType::Timestamp => Type::Timestamp,
            SqlType::TimestampTz => Type::TimestampTz,
            SqlType::Interval => Type::Interval,
            SqlType::Uuid => Type::Uuid,
            SqlType::Enum(_) => Type::Int64,
        }
    }

    /// The Arrow type of a vector of this type. `json` and `jsonb` have types that no other has, so that
    /// every expression tells them from texts and bytes. So has each enumeration: seconds in a time zone whose
    /// spelling nobody else uses. They compare, group and sort as the integers that they are, every expression says of which
    /// enumeration its values are, and what is none of integers, as LIKE and dates, refuses them.
    pub fn arrow(self) -> DataType {
        match self {
            SqlType::Json => DataType::LargeUtf8,
            SqlType::Jsonb => DataType::LargeBinary,
            SqlType::Array(element) => DataType::List(element.item()),
            SqlType::Enum(id) => DataType::Timestamp(TimeUnit::Second, Some(id.zone())),
            SqlType::Inet => DataType::FixedSizeBinary(network::INET_WIDTH as i32),
            SqlType::Cidr => DataType::FixedSizeBinary(network::CIDR_WIDTH as i32),
            SqlType::MacAddr => DataType::FixedSizeBinary(network::MACADDR_WIDTH as i32),
            other => other.storage().arrow(),
        }
    }

    /// The Arrow type of a vector as programs and clients read it: documents and arrays are texts.
    pub fn shown_arrow(self) -> DataType {
        match self {
            SqlType::Json => DataType::Utf8View,
            shown if shown.is_shown_as_text() => DataType::Utf8View,
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
            SqlType::Integer | SqlType::Real | SqlType::Date | SqlType::Enum(_) | SqlType::Oid => 4,
            SqlType::BigInt
            | SqlType::Double
            | SqlType::Time
            | SqlType::Timestamp
            | SqlType::TimestampTz => 8,
            SqlType::Interval | SqlType::Uuid => 16,
            SqlType::MacAddr => 6,
            SqlType::Decimal { .. }
            | SqlType::Char(_)
            | SqlType::Varchar(_)
            | SqlType::Text
            | SqlType::Bytea
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Inet
            | SqlType::Cidr
            | SqlType::Array(_) => -1,
        }
    }

    /// PostgreSQL's modifier of the type: 4 more than the length, or than digits and places; -1 without. Of an
    /// array, its elements'.
    pub fn modifier(self) -> i32 {
        match self {
            SqlType::Char(Some(length)) | SqlType::Varchar(Some(length)) => length as i32 + 4,
            SqlType::UNCONSTRAINED => -1,
            SqlType::Decimal { precision, scale } => {
                ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4
            }
            SqlType::Array(element) => element.ty().modifier(),
            _ => -1,
        }
    }

    /// The name with all digits, for other databases, whose NUMERIC without digits has fewer.
    pub fn name_with_digits(self) -> String {
        match self {
            SqlType::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
            SqlType::Array(element) if element != Element::OID => {
                format!("{}[]", element.ty().name_with_digits())
            }
            other => other.to_string(),
        }
    }

    /// Object id of the type of arrays of this type; of an array, of this type: PostgreSQL has one type for arrays
    /// of any number of dimensions.
    pub fn array_oid(self) -> u32 {
        match self {
            SqlType::Json => 199,
            SqlType::Cidr => 651,
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
            SqlType::MacAddr => 1040,
            SqlType::Inet => 1041,
            SqlType::Timestamp => 1115,
            SqlType::Date => 1182,
            SqlType::Time => 1183,
            SqlType::TimestampTz => 1185,
            SqlType::Interval => 1187,
            SqlType::Decimal { .. } => 1231,
            SqlType::Uuid => 2951,
            SqlType::Jsonb => 3807,
            SqlType::Array(element) => element.array_oid(),
            SqlType::Enum(id) => id.array_oid(),
            SqlType::Oid => 1028,
        }
    }

    /// The enumeration with this object id. `None`: for others.
    pub fn of_enum_oid(oid: u32) -> Option<Self> {
        EnumId::living(oid).map(SqlType::Enum)
    }

    /// The type of arrays with this object id, as [`SqlType::of_oid`] has the elements. `None`: for others.
    pub fn of_array_oid(oid: u32) -> Option<Self> {
        if let Some(id) = EnumId::of_array_oid(oid) {
            return SqlType::Enum(id).array_of();
        }
        Self::plain().into_iter().find(|ty| ty.array_oid() == oid)?.array_of()
    }

    /// The type with this object id, without a length; NUMERIC with all digits that it may have.
    /// `None`: for object ids of other types, and of arrays.
    fn of_oid(oid: u32) -> Option<Self> {
        Self::plain().into_iter().find(|ty| ty.oid() == oid)
    }

    /// The type with another enumeration for the one that it is of, or that its elements are of.
    pub fn with_enum<E>(self, other: impl FnOnce(EnumId) -> Result<EnumId, E>) -> Result<Self, E> {
        Ok(match self {
            SqlType::Enum(id) => SqlType::Enum(other(id)?),
            SqlType::Array(element) => match element.ty() {
                SqlType::Enum(id) => {
                    let oid = other(id)?.oid();
                    SqlType::Array(Element { oid, modifier: -1 })
                }
                _ => self,
            },
            _ => self,
        })
    }

    /// The enumeration that values, or the elements of arrays, are of.
    pub fn enumeration(self) -> Option<EnumId> {
        match self {
            SqlType::Enum(id) => Some(id),
            SqlType::Array(element) => match element.ty() {
                SqlType::Enum(id) => Some(id),
                _ => None,
            },
            _ => None,
        }
    }

    /// All types but arrays and enumerations, without lengths.
    fn plain() -> [Self; 22] {
        use SqlType::*;
        [
            Boolean,
            SmallInt,
            Integer,
            BigInt,
            Real,
            Double,
            SqlType::UNCONSTRAINED,
            Char(None),
            Varchar(None),
            Text,
            Bytea,
            Date,
            Time,
            Timestamp,
            TimestampTz,
            Interval,
            Uuid,
            Json,
            Jsonb,
            Inet,
            Cidr,
            MacAddr,
        ]
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
            SqlType::Cidr => 650,
            SqlType::Real => 700,
            SqlType::Double => 701,
            SqlType::MacAddr => 829,
            SqlType::Inet => 869,
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
            SqlType::Array(element) => element.array_oid(),
            SqlType::Enum(id) => id.oid(),
            SqlType::Oid => OID,
        }
    }
}

impl std::fmt::Display for SqlType {
    /// PostgreSQL's spelling, as `format_type` gives it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            SqlType::Boolean => f.write_str("boolean"),
            SqlType::SmallInt => f.write_str("smallint"),
            SqlType::Integer => f.write_str("integer"),
            SqlType::BigInt => f.write_str("bigint"),
            SqlType::Real => f.write_str("real"),
            SqlType::Double => f.write_str("double precision"),
            SqlType::UNCONSTRAINED => f.write_str("numeric"),
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
            SqlType::Inet => f.write_str("inet"),
            SqlType::Cidr => f.write_str("cidr"),
            SqlType::MacAddr => f.write_str("macaddr"),
            SqlType::Array(Element::OID) => f.write_str("oid[]"),
            SqlType::Array(element) => write!(f, "{}[]", element.ty()),
            SqlType::Enum(id) => f.write_str(&id.definition().shown()),
            SqlType::Oid => f.write_str("oid"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_postgresqls() {
        assert_eq!(SqlType::Varchar(Some(10)).modifier(), 14);
        let money = SqlType::Decimal { precision: 9, scale: 2 };
        assert_eq!(money.modifier(), (9 << 16 | 2) + 4);
        assert_eq!(money.array_of().map(SqlType::modifier), Some(money.modifier()));
        assert_eq!(SqlType::Text.modifier(), -1);
        let free = SqlType::UNCONSTRAINED;
        assert_eq!((free.modifier(), free.to_string()), (-1, "numeric".to_owned()));
        let list = free.array_of().expect("an array");
        assert_eq!((list.modifier(), list.to_string()), (-1, "numeric[]".to_owned()));
        assert_eq!(list.name_with_digits(), "numeric(38,10)[]");
        assert_eq!(money.name_with_digits(), money.to_string());
    }

    #[test]
    fn an_element_names_its_type() {
        use SqlType::*;
        for ty in [
            Boolean,
            Char(Some(3)),
            Char(None),
            Varchar(Some(7)),
            Varchar(None),
            Text,
            Decimal { precision: 38, scale: 10 },
            Decimal { precision: 1, scale: 0 },
            TimestampTz,
            Jsonb,
        ] {
            let array = ty.array_of().expect("an array");
            assert_eq!(array.element(), Some(ty));
            assert_eq!(array.array_of(), None);
            assert_eq!((array.oid(), array.to_string()), (ty.array_oid(), format!("{ty}[]")));
        }
    }
}
