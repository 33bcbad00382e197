//! Arrays and rows in expressions: their text, their dimensions, arrays from texts, and conversions of
//! their items.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use halcyon_sql::coerce::arrays;
use halcyon_sql::coerce::nested::{is_nested, write_cell};
use halcyon_sql::coerce::zone::TimeZone;
use halcyon_sql::coerce::{Arena, cast, parse};
use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};
use halcyon_sql::types::{Element, SqlType};
use halcyon_sql::values::{ArrayWriter, lists, sql_type_of, to_scalar, value_at};
use halcyon_store::ValueRef;

use crate::casts::PgCast;

/// Name of the function of [`key_of`].
pub const KEY: &str = "array\u{1}key";

/// Rows and arrays within each other: as text, quotes are doubled at each level.
const VALUE_DEPTH_MAX: usize = 16;

/// Fields that a type may have, those of the rows within it among them.
const FIELDS_MAX: usize = 16_384;

/// Errors: 54001 for rows and arrays that stand in each other more than [`VALUE_DEPTH_MAX`] deep, or have more than
/// [`FIELDS_MAX`] fields: `ROW(r, r)` of a row doubles them.
pub fn check_type(ty: &DataType) -> Result<()> {
    let mut open = vec![(ty, 0)];
    let mut fields_left = FIELDS_MAX;
    while let Some((ty, depth)) = open.pop() {
        if fields_left == 0 {
            let message = format!("a row can have at most {FIELDS_MAX} fields within it");
            return Err(external(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)));
        }
        fields_left -= 1;
        if depth > VALUE_DEPTH_MAX {
            let message = format!("rows and arrays can be nested at most {VALUE_DEPTH_MAX} deep");
            return Err(external(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)));
        }
        match ty {
            DataType::Struct(fields) => {
                open.extend(fields.iter().map(|field| (field.data_type(), depth + 1)));
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                open.push((item.data_type(), depth + 1));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The bytes of an array, which order as arrays do: NULL behind all other elements.
pub fn key_of(list: Expr) -> Expr {
    crate::of_name(KEY).expect("a function").call(vec![list])
}

/// The text of an array or a row; `zone` is the session's.
pub fn text_of(value: Expr, zone: &str) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = NestedText { of: Written::Value, zone: zone.to_owned(), signature };
    ScalarUDF::new_from_impl(function).call(vec![value])
}

/// `array_dims`: the bounds of each dimension, as `[1:2][1:3]`.
pub fn array_dims() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = NestedText { of: Written::Dimensions, zone: String::new(), signature };
    Arc::new(ScalarUDF::new_from_impl(function))
}

/// An array constant from its text. Errors: 22P02, 0A000, those of the items' type.
pub fn list_constant(text: &str, item: &Field, zone: &TimeZone) -> Result<Expr> {
    let Some(element) = sql_type_of(item).and_then(Element::of) else {
        return Err(external(SqlError::unsupported("an array of several dimensions")));
    };
    // A cast cuts texts that are too long, which reading them would refuse.
    let (texts, to) = (Element::of(SqlType::Text).expect("no array"), SqlType::Array(element));
    let arena = Arena::new();
    let value = match element.ty() {
        SqlType::Char(_) | SqlType::Varchar(_) => {
            let read = arrays::encode(text, texts, zone).map_err(external)?;
            let read = ValueRef::Bytes(arena.alloc_slice_copy(&read));
            cast(read, SqlType::Array(texts), to, zone, &arena)
        }
        _ => parse(text, to, zone, &arena),
    };
    Ok(Expr::Literal(to_scalar(value.map_err(external)?, to), None))
}

/// A type without the names of SQL's types that its lists' items have.
pub fn without_names(ty: &DataType) -> DataType {
    match ty {
        DataType::List(item) => {
            let item = Field::new_list_field(without_names(item.data_type()), true);
            DataType::List(Arc::new(item))
        }
        other => other.clone(),
    }
}

/// How many arrays stand within each other, and what stands in the innermost; 0 and the type itself for one that is
/// no array.
pub fn levels_of(ty: &DataType) -> (usize, FieldRef) {
    let (mut levels, mut item) = (0, Arc::new(Field::new_list_field(ty.clone(), true)));
    while let DataType::List(inner) = item.data_type() {
        (levels, item) = (levels + 1, Arc::clone(inner));
    }
    (levels, item)
}

/// The type of so many arrays within each other, the innermost of items of a type.
pub fn of_levels(levels: usize, item: SqlType) -> DataType {
    let within = |ty, _| DataType::List(Arc::new(Field::new_list_field(ty, true)));
    (0..levels).fold(item.arrow(), within)
}

/// An array with its items converted as CAST does, which stand within so many `levels` of arrays; `zone` is the
/// session's.
pub fn items_cast(list: Expr, from: SqlType, to: SqlType, levels: usize, zone: &str) -> Expr {
    list_cast(list, Some(from), to, levels, zone)
}

/// An array from its text, with items of a type; `zone` is the session's.
pub fn items_read(text: Expr, to: SqlType, zone: &str) -> Expr {
    list_cast(text, None, to, 1, zone)
}

/// An array whose items are their texts where Arrow would write others; `zone` is the session's.
pub fn with_texts(list: Expr, ty: &DataType, zone: &str) -> Expr {
    let (levels, item) = levels_of(ty);
    match sql_type_of(&item) {
        Some(from) if levels > 0 && PgCast::differs(from, SqlType::Text) => {
            items_cast(list, from, SqlType::Text, levels, zone)
        }
        _ => list,
    }
}

fn list_cast(value: Expr, from: Option<SqlType>, to: SqlType, levels: usize, zone: &str) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    let function = ListCast { from, to, levels, zone: zone.to_owned(), signature };
    ScalarUDF::new_from_impl(function).call(vec![value])
}

/// A conversion to arrays.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListCast {
    /// The type of the items, or `None` if arrays are read from texts.
    from: Option<SqlType>,
    to: SqlType,
    /// How many arrays stand within each other.
    levels: usize,
    zone: String,
    signature: Signature,
}

impl ListCast {
    /// The field of the items of the arrays that have so many levels.
    fn item(&self, levels: usize) -> FieldRef {
        Arc::new(Field::new_list_field(of_levels(levels - 1, self.to), true))
    }

    /// The arrays of `lists`, of so many levels, with their items converted.
    fn converted(
        &self,
        lists: &ListArray,
        levels: usize,
        from: SqlType,
        zone: &TimeZone,
    ) -> Result<ArrayRef> {
        let items = lists.values();
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        if let (2.., Some(inner)) = (levels, items.as_list_opt::<i32>()) {
            let inner = self.converted(inner, levels - 1, from, zone)?;
            return Ok(Arc::new(ListArray::try_new(self.item(levels), offsets, inner, nulls)?));
        }
        let mut writer = ArrayWriter::new(self.to, items.len());
        for row in 0..items.len() {
            let arena = Arena::new();
            let cell = match value_at(items.as_ref(), row) {
                Some(ValueRef::Null) | None => Ok(ValueRef::Null),
                Some(value) => cast(value, from, self.to, zone, &arena),
            };
            cell.and_then(|cell| writer.push(cell)).map_err(external)?;
        }
        Ok(Arc::new(ListArray::try_new(self.item(1), offsets, writer.finish(), nulls)?))
    }

    /// The arrays that texts stand for.
    fn read(&self, texts: &ArrayRef, zone: &TimeZone) -> Result<ArrayRef> {
        let texts = arrow::compute::cast(texts, &DataType::Utf8View)?;
        let texts = texts.as_string_view();
        let element = Element::of(self.to).expect("an element is no array");
        let mut arrays = Vec::with_capacity(texts.len());
        for text in texts {
            let bytes = text.map(|text| arrays::encode(text, element, zone));
            arrays.push(bytes.transpose().map_err(external)?);
        }
        Ok(Arc::new(lists(arrays.iter().map(Option::as_deref), element)))
    }
}

impl ScalarUDFImpl for ListCast {
    fn name(&self) -> &str {
        "list_cast"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(format!("CAST({} AS {}[])", args[0].schema_name(), self.to))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(of_levels(self.levels, self.to))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = TimeZone::parse(&self.zone).map_err(external)?;
        let array = args.args[0].to_array(1)?;
        let lists = match (self.from, array.as_list_opt::<i32>()) {
            (Some(from), Some(lists)) => self.converted(lists, self.levels, from, &zone)?,
            _ => self.read(&array, &zone)?,
        };
        match args.args[0] {
            ColumnarValue::Scalar(_) => {
                ScalarValue::try_from_array(&lists, 0).map(ColumnarValue::Scalar)
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(lists)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Written {
    Value,
    Dimensions,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    of: Written,
    zone: String,
    signature: Signature,
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        match self.of {
            Written::Value => "nested_text",
            Written::Dimensions => "array_dims",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if is_nested(ty) => Ok(types.to_vec()),
            _ => Err(external(
                SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("function {} does not exist for these arguments", self.name()),
                )
                .hint("It takes one array."),
            )),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(1)?;
        let zone = match self.of {
            Written::Value => TimeZone::parse(&self.zone).map_err(external)?,
            Written::Dimensions => TimeZone::UTC,
        };
        let mut builder = StringViewBuilder::with_capacity(array.len());
        let mut text = String::new();
        for row in 0..array.len() {
            text.clear();
            let is_there = array.is_valid(row)
                && match self.of {
                    Written::Value => {
                        write_cell(array.as_ref(), row, &zone, &mut text);
                        true
                    }
                    Written::Dimensions => dimensions(&array.slice(row, 1), &mut text),
                };
            builder.append_option(is_there.then_some(text.as_str()));
        }
        let texts: ArrayRef = Arc::new(builder.finish());
        match args.args[0] {
            ColumnarValue::Scalar(_) => {
                ScalarValue::try_from_array(&texts, 0).map(ColumnarValue::Scalar)
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(texts)),
        }
    }
}

/// Appends the bounds of the list in an array of one row; false if the list is empty.
fn dimensions(lists: &ArrayRef, out: &mut String) -> bool {
    let Some(lists) = lists.as_list_opt::<i32>() else { return !out.is_empty() };
    if lists.is_empty() || lists.is_null(0) || lists.value(0).is_empty() {
        return !out.is_empty();
    }
    let items = lists.value(0);
    out.push_str(&format!("[1:{}]", items.len()));
    dimensions(&items.slice(0, 1), out)
}
