//! Types as clients are told them: those of SQL, arrays of them, and what only system tables have.

use arrow::datatypes::{DataType, Field};

use crate::types::{OID_ALIAS_KEY, PG_TYPE_KEY, SqlType};

/// The type of a column as clients are told it, and how its values are written for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientType {
    /// Object id in `pg_type`.
    pub oid: u32,
    /// `pg_type.typlen`: bytes of a fixed width, -1 of others.
    pub length: i16,
    /// How values are written.
    pub shape: Shape,
}

/// How a column's values are written for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As values of an SQL type.
    Value(SqlType),
    /// A list of values of a type with this object id: `{1,2}` as text.
    Array {
        /// The type of the elements.
        element: SqlType,
        /// Its object id, which may be that of an alias.
        element_oid: u32,
    },
    /// `int2vector`, `oidvector`: `1 2` as text, a list whose subscripts begin at 0 in binary. Values
    /// come as lists, or as their text.
    Vector {
        /// The type of the elements.
        element: SqlType,
        /// Its object id.
        element_oid: u32,
    },
    /// `"char"`: one byte, which is 0 in binary where there is no letter.
    Letter,
    /// `regproc`: a function's name as text, its object id in binary.
    Function,
    /// `tid`: `(block,offset)` as text.
    Place,
}

impl ClientType {
    fn of_system(name: &str) -> Option<Self> {
        use SqlType::{Integer, SmallInt, Text};
        let value = |oid, length, ty| ClientType { oid, length, shape: Shape::Value(ty) };
        let of = |oid, shape| ClientType { oid, length: -1, shape };
        Some(match name {
            "name" => value(19, 64, Text),
            "char" => ClientType { oid: 18, length: 1, shape: Shape::Letter },
            "oid" => value(26, 4, Integer),
            "xid" => value(28, 4, Integer),
            "cid" => value(29, 4, Integer),
            "tid" => ClientType { oid: 27, length: 6, shape: Shape::Place },
            "regclass" => value(2205, 4, Integer),
            "regtype" => value(2206, 4, Integer),
            "regnamespace" => value(4089, 4, Integer),
            "regrole" => value(4096, 4, Integer),
            "void" => value(2278, 4, Text),
            "json" => value(114, -1, Text),
            "regproc" => ClientType { oid: 24, length: 4, shape: Shape::Function },
            "int2vector" => of(22, Shape::Vector { element: SmallInt, element_oid: 21 }),
            "oidvector" => of(30, Shape::Vector { element: Integer, element_oid: 26 }),
            "oid[]" => of(1028, Shape::Array { element: Integer, element_oid: 26 }),
            "name[]" => of(1003, Shape::Array { element: Text, element_oid: 19 }),
            "char[]" => of(1002, Shape::Array { element: Text, element_oid: 18 }),
            "aclitem[]" => of(1034, Shape::Array { element: Text, element_oid: 1033 }),
            _ => return None,
        })
    }

    /// The type of a result's column. What SQL has no type for is told, and written, as text.
    pub fn of(field: &Field, ty: Option<SqlType>) -> Self {
        let metadata = field.metadata();
        let system = metadata.get(PG_TYPE_KEY).or_else(|| metadata.get(OID_ALIAS_KEY));
        if let Some(system) = system.and_then(|name| Self::of_system(name))
            && system.fits(field.data_type())
        {
            return system;
        }
        let ty = ty.unwrap_or(SqlType::Text);
        if let (SqlType::Array(element), DataType::List(_)) = (ty, field.data_type()) {
            let shape = Shape::Array { element: element.ty(), element_oid: element.oid() };
            return ClientType { oid: element.array_oid(), length: -1, shape };
        }
        ClientType { oid: ty.oid(), length: ty.length(), shape: Shape::Value(ty) }
    }

    /// Whether values of an Arrow type can be written so: an expression may keep its column's metadata
    /// and give something else.
    fn fits(&self, ty: &DataType) -> bool {
        let text = matches!(ty, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
        match self.shape {
            Shape::Value(SqlType::Text) | Shape::Function | Shape::Letter | Shape::Place => text,
            Shape::Value(_) => ty.is_integer(),
            Shape::Array { .. } => matches!(ty, DataType::List(_)),
            Shape::Vector { .. } => text || matches!(ty, DataType::List(_)),
        }
    }
}
