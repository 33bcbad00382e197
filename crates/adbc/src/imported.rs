//! Arrays of other libraries, looked at before they are used.
//!
//! Source: Arrow's documentation, "The Arrow C data interface" and "The Arrow C stream interface". That pointers are
//! valid, and buffers as long as counts and offsets say, is the caller's word. What can be looked at is: counts, the
//! offsets that say how long a buffer is, and every value (`ArrayData::validate_full`).
#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader, StructArray, make_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;

type Result<T> = std::result::Result<T, ArrowError>;

/// More rows than any array has whose buffers fit in memory.
const MOST: i64 = 1 << 47;

fn malformed(what: &str) -> ArrowError {
    ArrowError::CDataInterface(format!("malformed {what}"))
}

/// Does work that a malformed array may break off.
fn caught<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(malformed(what)))
}

/// The batch of a structure, whose columns are the structure's fields. Errors: it is malformed, or none.
///
/// # Safety
///
/// The array and its schema are as Arrow's C data interface has them, but for what this module looks at.
pub unsafe fn batch(array: FFI_ArrowArray, schema: &FFI_ArrowSchema) -> Result<RecordBatch> {
    let schema = caught("schema", || Schema::try_from(schema))?;
    require_sound_fields(&schema)?;
    // SAFETY: as the caller says.
    unsafe { of_schema(array, &Arc::new(schema)) }
}

/// # Safety
///
/// As for [`batch`].
unsafe fn of_schema(array: FFI_ArrowArray, schema: &SchemaRef) -> Result<RecordBatch> {
    let ty = DataType::Struct(schema.fields().clone());
    caught("array", || {
        // SAFETY: as the caller says.
        unsafe { require_counts(&array, &ty) }?;
        // SAFETY: as the caller says; what the function relies on without looking has been looked at.
        let data = unsafe { from_ffi_and_data_type(array, ty) }?;
        data.validate_full()?;
        if data.null_count() > 0 {
            return Err(malformed("batch: a row of it is NULL"));
        }
        let (_, columns, _) = StructArray::from(make_array(data).to_data()).into_parts();
        RecordBatch::try_new(schema.clone(), columns)
    })
}

fn require_sound_fields(schema: &Schema) -> Result<()> {
    schema.fields().iter().try_for_each(|field| require_sound(field.data_type()))
}

/// Errors: a type whose values would have less than no bytes or items.
fn require_sound(ty: &DataType) -> Result<()> {
    if let DataType::FixedSizeBinary(width) | DataType::FixedSizeList(_, width) = ty
        && !(0..=1 << 24).contains(width)
    {
        return Err(malformed("type: a width that no value has"));
    }
    below(ty).into_iter().try_for_each(require_sound)
}

/// The types of an array's children.
fn below(ty: &DataType) -> Vec<&DataType> {
    match ty {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends.data_type(), values.data_type()],
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        _ => Vec::new(),
    }
}

/// Looks at the counts of an array and its children, and at the offsets that say how long a buffer is.
///
/// # Safety
///
/// As for [`batch`].
unsafe fn require_counts(array: &FFI_ArrowArray, ty: &DataType) -> Result<()> {
    let end = array.length.saturating_add(array.offset);
    let counts = (0..MOST).contains(&array.length)
        && (0..MOST).contains(&array.offset)
        && (-1..=array.length).contains(&array.null_count);
    let (least, most) = match ty {
        DataType::Null | DataType::RunEndEncoded(..) => (0, 0),
        DataType::Union(..) => (1, 3),
        DataType::Struct(_) | DataType::FixedSizeList(..) => (1, 1),
        DataType::Utf8View | DataType::BinaryView => (3, 1 << 20),
        DataType::Utf8 | DataType::Binary | DataType::LargeUtf8 | DataType::LargeBinary => (3, 3),
        DataType::ListView(_) | DataType::LargeListView(_) => (3, 3),
        _ => (2, 2),
    };
    let children = below(ty);
    if !counts
        || !(least..=most).contains(&array.n_buffers)
        || (array.n_buffers > 0 && array.buffers.is_null())
        || array.n_children != children.len() as i64
        || (!children.is_empty() && array.children.is_null())
    {
        return Err(malformed("array: counts that none has"));
    }
    let buffer = |at: usize| {
        // SAFETY: there are as many buffers, as was just looked at.
        unsafe { *array.buffers.add(at) }
    };
    match ty {
        DataType::Utf8 | DataType::Binary if !buffer(1).is_null() => {
            // SAFETY: a buffer of one offset more than there are values.
            let last = unsafe { buffer(1).cast::<i32>().add(end as usize).read_unaligned() };
            if last < 0 {
                return Err(malformed("array: a negative offset"));
            }
        }
        DataType::LargeUtf8 | DataType::LargeBinary if !buffer(1).is_null() => {
            // SAFETY: a buffer of one offset more than there are values.
            let last = unsafe { buffer(1).cast::<i64>().add(end as usize).read_unaligned() };
            if !(0..MOST).contains(&last) {
                return Err(malformed("array: an offset that none has"));
            }
        }
        DataType::Utf8View | DataType::BinaryView if array.n_buffers > 3 => {
            let lengths = buffer(array.n_buffers as usize - 1).cast::<i64>();
            let lengths = (!lengths.is_null()).then_some(lengths);
            let lengths = lengths.ok_or_else(|| malformed("array: no lengths of buffers"))?;
            let mut each = (0..array.n_buffers as usize - 3)
                // SAFETY: a number for each buffer but the first two and this one.
                .map(|at| unsafe { lengths.add(at).read_unaligned() });
            if each.any(|length| !(0..MOST).contains(&length)) {
                return Err(malformed("array: a buffer of less than no bytes"));
            }
        }
        DataType::Dictionary(_, values) => {
            // SAFETY: null or a pointer to an array.
            let dictionary = unsafe { array.dictionary.as_ref() };
            let dictionary = dictionary.ok_or_else(|| malformed("array: no dictionary"))?;
            // SAFETY: as the caller says.
            unsafe { require_counts(dictionary, values) }?;
        }
        _ => {}
    }
    for (at, ty) in children.into_iter().enumerate() {
        // SAFETY: there are as many children, each null or a pointer to an array.
        let child = unsafe { (*array.children.add(at)).as_ref() };
        // SAFETY: as the caller says.
        unsafe { require_counts(child.ok_or_else(|| malformed("array: no child"))?, ty) }?;
    }
    Ok(())
}

/// Batches of another library's stream.
pub struct Stream {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
    is_over: bool,
}

impl Stream {
    /// The batches of a stream. Errors: its own, or a schema that is malformed or none of batches.
    ///
    /// # Safety
    ///
    /// The stream is as Arrow's C stream interface has it, and its arrays as [`batch`] wants them.
    pub unsafe fn new(mut stream: FFI_ArrowArrayStream) -> Result<Self> {
        let get = stream.get_schema.ok_or_else(|| malformed("stream"))?;
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream's function with the stream.
        if unsafe { get(&raw mut stream, &raw mut schema) } != 0 {
            return Err(last_error(&mut stream));
        }
        if schema.release.is_none() {
            return Err(malformed("stream: it has no schema"));
        }
        let schema = caught("schema", || Schema::try_from(&schema))?;
        require_sound_fields(&schema)?;
        Ok(Stream { stream, schema: Arc::new(schema), is_over: false })
    }

    fn find(&mut self) -> Result<Option<RecordBatch>> {
        let get = self.stream.get_next.ok_or_else(|| malformed("stream"))?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream's function with the stream.
        if unsafe { get(&raw mut self.stream, &raw mut array) } != 0 {
            return Err(last_error(&mut self.stream));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: as whoever made the stream says.
        unsafe { of_schema(array, &self.schema) }.map(Some)
    }
}

/// What a stream says of its error.
fn last_error(stream: &mut FFI_ArrowArrayStream) -> ArrowError {
    let text = stream.get_last_error.map(|get| {
        // SAFETY: the stream's function with the stream.
        unsafe { get(&raw mut *stream) }
    });
    let text = text.filter(|text| !text.is_null()).map(|text| {
        // SAFETY: a text of C, which lives until the stream is called again.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    });
    ArrowError::CDataInterface(text.unwrap_or_else(|| "the stream failed".to_owned()))
}

impl Iterator for Stream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let found = self.find().transpose();
        self.is_over = !matches!(found, Some(Ok(_)));
        found
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
