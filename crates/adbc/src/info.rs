//! Facts about the driver and the database behind it.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::constants::ADBC_VERSION_1_1_0;
use adbc_core::options::InfoCode;
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchReader, StringArray, UInt32Array,
    UnionArray, new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::errors::Result;
use crate::tree;

/// A fact.
enum Fact {
    Text(&'static str),
    Truth(bool),
    Number(i64),
}

/// All facts.
fn facts() -> [(InfoCode, Fact); 9] {
    let version = env!("CARGO_PKG_VERSION");
    [
        (InfoCode::VendorName, Fact::Text("Halcyon")),
        (InfoCode::VendorVersion, Fact::Text(version)),
        (InfoCode::VendorArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
        (InfoCode::VendorSql, Fact::Truth(true)),
        (InfoCode::VendorSubstrait, Fact::Truth(false)),
        (InfoCode::DriverName, Fact::Text("ADBC Halcyon Driver")),
        (InfoCode::DriverVersion, Fact::Text(version)),
        (InfoCode::DriverArrowVersion, Fact::Text(arrow::ARROW_VERSION)),
        (InfoCode::DriverAdbcVersion, Fact::Number(ADBC_VERSION_1_1_0 as i64)),
    ]
}

/// The facts of these codes, all without; codes that the driver does not know are left out.
pub fn reader(
    codes: Option<HashSet<InfoCode>>,
) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
    tree::reader(batch(codes.as_ref()))
}

fn batch(codes: Option<&HashSet<InfoCode>>) -> std::result::Result<RecordBatch, ArrowError> {
    let (mut names, mut kinds, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    let (mut texts, mut truths, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for (code, fact) in facts() {
        if codes.is_some_and(|codes| !codes.contains(&code)) {
            continue;
        }
        names.push(u32::from(&code));
        let (kind, at) = match fact {
            Fact::Text(text) => {
                texts.push(text);
                (0, texts.len())
            }
            Fact::Truth(truth) => {
                truths.push(truth);
                (1, truths.len())
            }
            Fact::Number(number) => {
                numbers.push(number);
                (2, numbers.len())
            }
        };
        kinds.push(kind);
        offsets.push(at as i32 - 1);
    }
    let schema = GET_INFO_SCHEMA.clone();
    let DataType::Union(fields, _) = schema.field(1).data_type() else {
        return Err(ArrowError::SchemaError("the facts' values are no union".into()));
    };
    let mut children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(truths)),
        Arc::new(Int64Array::from(numbers)),
    ];
    children.extend(fields.iter().skip(3).map(|(_, field)| new_empty_array(field.data_type())));
    let values = UnionArray::try_new(
        fields.clone(),
        ScalarBuffer::from(kinds),
        Some(ScalarBuffer::from(offsets)),
        children,
    )?;
    RecordBatch::try_new(schema, vec![Arc::new(UInt32Array::from(names)), Arc::new(values)])
}
