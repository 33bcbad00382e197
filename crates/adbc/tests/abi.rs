//! The table of functions, called as C calls it: null pointers, calls out of turn, malformed arrays, and errors of
//! streams.

mod common;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

use adbc_core::constants::*;
use adbc_driver_halcyon::abi::{AdbcDriverHalcyonInit, AdbcDriverInit};
use adbc_ffi::{
    FFI_AdbcConnection, FFI_AdbcDatabase, FFI_AdbcDriver, FFI_AdbcError, FFI_AdbcStatement,
};
use arrow::array::{Array, ArrayData, RecordBatch, StructArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use common::{batch, ints, sample};

/// A table, and an object of each kind.
struct Objects {
    driver: Box<FFI_AdbcDriver>,
    database: FFI_AdbcDatabase,
    connection: FFI_AdbcConnection,
    statement: FFI_AdbcStatement,
    error: FFI_AdbcError,
}

macro_rules! call {
    ($objects:expr, $name:ident ( $($argument:expr),* )) => {{
        let function = $objects.driver.$name.expect(stringify!($name));
        // SAFETY: the arguments are objects of the driver, or what a test of bad ones says.
        let status = unsafe { function($($argument),*) };
        status
    }};
}

fn table() -> Box<FFI_AdbcDriver> {
    let mut driver = Box::<FFI_AdbcDriver>::default();
    // SAFETY: a table of version 1.1.0.
    let status = unsafe {
        AdbcDriverHalcyonInit(ADBC_VERSION_1_1_0, (&raw mut *driver).cast::<c_void>(), null_mut())
    };
    assert_eq!(status, ADBC_STATUS_OK);
    driver
}

fn error() -> FFI_AdbcError {
    FFI_AdbcError {
        message: null_mut(),
        vendor_code: ADBC_ERROR_VENDOR_CODE_PRIVATE_DATA,
        sqlstate: [0; 5],
        release: None,
        private_data: null_mut(),
        private_driver: null(),
    }
}

impl Objects {
    fn new() -> Self {
        let mut made = Objects {
            driver: table(),
            database: FFI_AdbcDatabase::default(),
            connection: FFI_AdbcConnection::default(),
            statement: FFI_AdbcStatement::default(),
            error: error(),
        };
        let o = &mut made;
        assert_eq!(call!(o, DatabaseNew(&mut o.database, &mut o.error)), ADBC_STATUS_OK);
        assert_eq!(call!(o, DatabaseInit(&mut o.database, &mut o.error)), ADBC_STATUS_OK);
        assert_eq!(call!(o, ConnectionNew(&mut o.connection, &mut o.error)), ADBC_STATUS_OK);
        assert_eq!(
            call!(o, ConnectionInit(&mut o.connection, &mut o.database, &mut o.error)),
            ADBC_STATUS_OK
        );
        assert_eq!(
            call!(o, StatementNew(&mut o.connection, &mut o.statement, &mut o.error)),
            ADBC_STATUS_OK
        );
        made
    }

    fn sql(&mut self, text: &CStr) -> u8 {
        call!(self, StatementSetSqlQuery(&mut self.statement, text.as_ptr(), &mut self.error))
    }

    fn run(&mut self, out: *mut FFI_ArrowArrayStream, rows: *mut i64) -> u8 {
        call!(self, StatementExecuteQuery(&mut self.statement, out, rows, &mut self.error))
    }

    fn option(&mut self, key: &CStr, value: &CStr) -> u8 {
        call!(
            self,
            StatementSetOption(&mut self.statement, key.as_ptr(), value.as_ptr(), &mut self.error)
        )
    }

    fn message(&self) -> String {
        assert!(!self.error.message.is_null());
        // SAFETY: the message of an error is a text of C.
        unsafe { CStr::from_ptr(self.error.message) }.to_str().unwrap().to_owned()
    }

    fn works(&mut self) {
        assert_eq!(self.sql(c"SELECT 1"), ADBC_STATUS_OK);
        assert_eq!(self.run(null_mut(), null_mut()), ADBC_STATUS_OK);
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        call!(self, StatementRelease(&mut self.statement, null_mut()));
        call!(self, ConnectionRelease(&mut self.connection, null_mut()));
        call!(self, DatabaseRelease(&mut self.database, null_mut()));
    }
}

#[test]
fn the_entry_points_know_two_versions_of_the_standard() {
    let init = |version, driver: *mut c_void| {
        let mut error = error();
        // SAFETY: the table is as long as the version says, or null.
        let statuses = unsafe {
            [
                AdbcDriverHalcyonInit(version, driver, &mut error),
                AdbcDriverInit(version, driver, null_mut()),
            ]
        };
        assert_eq!(statuses[0], statuses[1]);
        assert_eq!(error.message.is_null(), statuses[0] == ADBC_STATUS_OK);
        statuses[0]
    };
    assert_eq!(init(ADBC_VERSION_1_1_0, null_mut()), ADBC_STATUS_INVALID_ARGUMENT);
    assert_eq!(init(2_000_000, null_mut()), ADBC_STATUS_NOT_IMPLEMENTED);
    let mut driver = FFI_AdbcDriver::default();
    let place = (&raw mut driver).cast::<c_void>();
    assert_eq!(init(ADBC_VERSION_1_0_0, place), ADBC_STATUS_OK);
    // Behind the end of a table of version 1.0.0 nothing was written.
    assert!(driver.StatementSetSubstraitPlan.is_some());
    assert!(driver.ErrorGetDetailCount.is_none() && driver.StatementCancel.is_none());
    assert_eq!(init(ADBC_VERSION_1_1_0, place), ADBC_STATUS_OK);
    assert!(driver.ErrorGetDetailCount.is_some() && driver.StatementCancel.is_some());
}

// StatementTest.ErrorCompatibility
#[test]
fn an_error_of_version_1_0_is_not_written_beyond() {
    let mut o = Objects::new();
    let marker = 0x5A5A_usize as *mut c_void;
    let mut old = error();
    (old.vendor_code, old.private_data) = (0, marker);
    let text = c"SELECT * FROM nothing";
    assert_eq!(o.sql(text), ADBC_STATUS_OK);
    let status =
        call!(o, StatementExecuteQuery(&mut o.statement, null_mut(), null_mut(), &mut old));
    assert_eq!(status, ADBC_STATUS_NOT_FOUND);
    assert_eq!(old.private_data, marker);
    assert!(!old.message.is_null());
    old.private_data = null_mut();
}

#[test]
fn null_pointers_are_invalid_arguments() {
    let mut o = Objects::new();
    let e: *mut FFI_AdbcError = &mut o.error;
    let (d, c, s): (*mut _, *mut _, *mut _) =
        (&mut o.database, &mut o.connection, &mut o.statement);
    let name = c"adbc.connection.autocommit".as_ptr();
    let mut length = 0_usize;
    let mut number = 0_i64;
    let statuses = [
        call!(o, DatabaseNew(null_mut(), e)),
        call!(o, DatabaseInit(null_mut(), e)),
        call!(o, DatabaseRelease(null_mut(), e)),
        call!(o, DatabaseSetOption(d, null(), name, e)),
        call!(o, DatabaseSetOption(d, name, null(), e)),
        call!(o, DatabaseGetOption(d, name, null_mut(), &mut length, e)),
        call!(o, ConnectionNew(null_mut(), e)),
        call!(o, ConnectionInit(null_mut(), d, e)),
        call!(o, ConnectionCommit(null_mut(), e)),
        call!(o, ConnectionCancel(null_mut(), e)),
        call!(o, ConnectionSetOption(c, null(), name, e)),
        call!(o, ConnectionGetOptionInt(c, null(), &mut number, e)),
        call!(o, ConnectionGetInfo(c, null(), 0, null_mut(), e)),
        call!(o, ConnectionGetTableTypes(c, null_mut(), e)),
        call!(o, ConnectionGetTableSchema(c, null(), null(), null(), null_mut(), e)),
        call!(o, StatementNew(null_mut(), s, e)),
        call!(o, StatementBind(s, null_mut(), null_mut(), e)),
        call!(o, StatementBindStream(s, null_mut(), e)),
        call!(o, StatementSetSqlQuery(s, null(), e)),
        call!(o, StatementSetSubstraitPlan(s, null(), 0, e)),
        call!(o, StatementPrepare(null_mut(), e)),
        call!(o, StatementExecuteQuery(null_mut(), null_mut(), null_mut(), e)),
        call!(o, StatementExecuteSchema(s, null_mut(), e)),
        call!(o, StatementGetParameterSchema(s, null_mut(), e)),
        call!(o, StatementSetOption(s, null(), null(), e)),
        call!(o, StatementCancel(null_mut(), null_mut())),
    ];
    for (at, status) in statuses.into_iter().enumerate() {
        assert_eq!(status, ADBC_STATUS_INVALID_ARGUMENT, "call {at}");
    }
    let from_stream = o.driver.ErrorFromArrayStream.expect("a function");
    // SAFETY: null, and a stream of another maker.
    unsafe {
        assert!(from_stream(null_mut(), null_mut()).is_null());
        let mut other = FFI_ArrowArrayStream::empty();
        assert!(from_stream(&mut other, null_mut()).is_null());
    }
    o.works();
}

#[test]
fn calls_out_of_turn_are_refused() {
    let mut o = Objects::new();
    // Again, or on what was never begun.
    assert_eq!(call!(o, DatabaseInit(&mut o.database, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    assert!(o.message().contains("already"));
    let mut fresh = FFI_AdbcConnection::default();
    assert_eq!(call!(o, ConnectionCommit(&mut fresh, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    assert_eq!(call!(o, ConnectionNew(&mut fresh, &mut o.error)), ADBC_STATUS_OK);
    assert_eq!(call!(o, ConnectionCommit(&mut fresh, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    assert_eq!(call!(o, ConnectionRelease(&mut fresh, &mut o.error)), ADBC_STATUS_OK);
    // Released, and used again.
    assert_eq!(call!(o, ConnectionRelease(&mut fresh, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    let mut statement = FFI_AdbcStatement::default();
    assert_eq!(
        call!(o, StatementNew(&mut o.connection, &mut statement, &mut o.error)),
        ADBC_STATUS_OK
    );
    assert_eq!(call!(o, StatementRelease(&mut statement, &mut o.error)), ADBC_STATUS_OK);
    assert_eq!(call!(o, StatementRelease(&mut statement, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    assert_eq!(call!(o, StatementPrepare(&mut statement, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    let mut database = FFI_AdbcDatabase::default();
    assert_eq!(call!(o, DatabaseRelease(&mut database, &mut o.error)), ADBC_STATUS_INVALID_STATE);
    // A stream that was released already.
    let mut stream = FFI_ArrowArrayStream::empty();
    assert_eq!(
        call!(o, StatementBindStream(&mut o.statement, &mut stream, &mut o.error)),
        ADBC_STATUS_INVALID_STATE
    );
    o.works();
}

#[test]
fn a_text_that_is_not_utf_8_is_refused() {
    let mut o = Objects::new();
    let text = CString::new(vec![b'S', 0xFF, 0xFE]).unwrap();
    assert_ne!(o.sql(&text), ADBC_STATUS_OK);
    o.works();
}

// ResultIndependence, and the error of a stream with its state
#[test]
fn the_error_that_ends_a_stream_has_its_status_and_outlives_the_statement() {
    let mut o = Objects::new();
    assert_eq!(
        o.sql(c"CREATE TABLE t AS SELECT x FROM generate_series(1, 200000) g(x)"),
        ADBC_STATUS_OK
    );
    assert_eq!(o.run(null_mut(), null_mut()), ADBC_STATUS_OK);
    // The second row of parameters fails, which is run as the stream is read.
    assert_eq!(o.sql(c"SELECT 10 / ?::bigint"), ADBC_STATUS_OK);
    let rows = batch(vec![("a", ints(vec![5, 0]))]);
    let (mut array, mut schema) = to_ffi(&StructArray::from(rows).to_data()).unwrap();
    assert_eq!(
        call!(o, StatementBind(&mut o.statement, &mut array, &mut schema, &mut o.error)),
        ADBC_STATUS_OK
    );
    let mut stream = FFI_ArrowArrayStream::empty();
    assert_eq!(o.run(&mut stream, null_mut()), ADBC_STATUS_OK);
    call!(o, StatementRelease(&mut o.statement, null_mut()));
    let from_stream = o.driver.ErrorFromArrayStream.expect("a function");
    let next = stream.get_next.expect("a function");
    let mut status = ADBC_STATUS_OK;
    // SAFETY: a stream of the driver, which lives until the end of the test.
    unsafe {
        let mut array = FFI_ArrowArray::empty();
        assert_eq!(next(&mut stream, &mut array), 0);
        assert!(from_stream(&mut stream, &mut status).is_null());
        let mut array = FFI_ArrowArray::empty();
        assert_ne!(next(&mut stream, &mut array), 0);
        let last = stream.get_last_error.expect("a function")(&mut stream);
        assert!(CStr::from_ptr(last).to_str().unwrap().contains("division by zero"));
        for _ in 0..2 {
            let error = from_stream(&mut stream, &mut status).as_ref().expect("an error");
            assert_eq!(status, ADBC_STATUS_INVALID_DATA);
            assert_eq!(error.sqlstate.map(|c| c as u8), *b"22012");
            let count = o.driver.ErrorGetDetailCount.expect("a function")(error);
            assert!(count >= 1, "{count}");
            let detail = o.driver.ErrorGetDetail.expect("a function")(error, 0);
            assert_eq!(CStr::from_ptr(detail.key), c"PG_DIAG_MESSAGE_PRIMARY");
        }
        stream.release.expect("a function")(&mut stream);
        assert!(stream.release.is_none());
        assert!(from_stream(&mut stream, &mut status).is_null());
    }
    call!(o, StatementNew(&mut o.connection, &mut o.statement, &mut o.error));
    o.works();
}

#[test]
fn a_stream_of_a_write_tells_its_rows() {
    let mut o = Objects::new();
    o.sql(c"CREATE TABLE t (a int)");
    assert_eq!(o.run(null_mut(), null_mut()), ADBC_STATUS_OK);
    for (text, expected) in [
        (c"INSERT INTO t VALUES (1), (2)", 2),
        (c"DELETE FROM t WHERE a = 1 RETURNING a", 1),
        (c"SELECT * FROM t", -1),
    ] {
        let (mut stream, mut rows) = (FFI_ArrowArrayStream::empty(), 99);
        assert_eq!(o.sql(text), ADBC_STATUS_OK);
        assert_eq!(o.run(&mut stream, &mut rows), ADBC_STATUS_OK);
        assert_eq!(rows, expected, "{text:?}");
        let reader = ArrowArrayStreamReader::try_new(stream).unwrap();
        reader.collect::<Result<Vec<RecordBatch>, _>>().unwrap();
    }
}

/// Numbers of a generator by G. Marsaglia ("Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A structure of C as Arrow's C data interface has it (arrow.h), all of whose fields a test may spoil.
#[repr(C)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut CArray,
    dictionary: *mut CArray,
    release: Option<unsafe extern "C" fn(*mut CArray)>,
    private_data: *mut c_void,
}

#[test]
fn random_bytes_as_values_are_refused_or_taken_and_never_break_the_driver() {
    let seconds = std::env::var("HALCYON_FUZZ_SECONDS").ok().and_then(|s| s.parse::<u64>().ok());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(1));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut o = Objects::new();
    let mut refused = 0;
    while std::time::Instant::now() < until || refused == 0 {
        // Offsets and bytes of texts are random: buffers of the right length, as the interface demands.
        let rows = (random.next() % 8) as usize;
        let offsets: Vec<i32> = (0..=rows)
            .map(|at| match random.next() % 4 {
                0 => random.next() as i32 % 64,
                _ => (at * 4) as i32,
            })
            .collect();
        let bytes: Vec<u8> = (0..64)
            .map(|_| match random.next() % 4 {
                0 => random.next() as u8,
                _ => b'a',
            })
            .collect();
        let validity = [random.next() as u8];
        // SAFETY: nothing looks at the values before the driver, which is to refuse what is malformed.
        let data = unsafe {
            ArrayData::builder(DataType::Utf8)
                .len(rows)
                .null_bit_buffer(Some(Buffer::from(&validity[..])))
                .add_buffer(Buffer::from_vec(offsets))
                .add_buffer(Buffer::from_vec(bytes))
                .build_unchecked()
        };
        let column = Field::new("t", DataType::Utf8, true);
        let ty = DataType::Struct(vec![column].into());
        let data =
            // SAFETY: as above.
            unsafe { ArrayData::builder(ty).len(rows).add_child_data(data).build_unchecked() };
        let (mut array, mut schema) = to_ffi(&data).unwrap();
        assert_eq!(o.option(c"adbc.ingest.target_table", c"t"), ADBC_STATUS_OK);
        assert_eq!(
            o.option(c"adbc.ingest.mode", c"adbc.ingest.mode.create_append"),
            ADBC_STATUS_OK
        );
        let bound =
            call!(o, StatementBind(&mut o.statement, &mut array, &mut schema, &mut o.error));
        let ran = match bound {
            ADBC_STATUS_OK => o.run(null_mut(), null_mut()),
            status => status,
        };
        assert_ne!(ran, ADBC_STATUS_INTERNAL);
        refused += u64::from(ran != ADBC_STATUS_OK);
        o.works();
    }
}

#[test]
fn random_structures_and_types_are_refused_and_never_break_the_driver() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    let mut o = Objects::new();
    let formats = [
        c"",
        c"+s",
        c"+l",
        c"u",
        c"U",
        c"vu",
        c"i",
        c"l",
        c"g",
        c"w:",
        c"w:-1",
        c"w:8",
        c"w:99999999999",
        c"d:",
        c"d:300,300",
        c"tss:Nowhere",
        c"ts",
        c"tdD",
        c"+ud:0,1",
        c"+w:-2",
        c"+m",
        c"+r",
        c"\u{1F600}",
        c"e",
        c"tDu",
        c"n",
    ];
    for _ in 0..2000 {
        let rows = batch(vec![("a", ints(vec![1, 2, 3]))]);
        let (mut array, mut schema) = to_ffi(&StructArray::from(rows).to_data()).unwrap();
        spoil(&mut array, &mut schema, &mut random, &formats);
        let bound =
            call!(o, StatementBind(&mut o.statement, &mut array, &mut schema, &mut o.error));
        if bound == ADBC_STATUS_OK {
            assert_eq!(o.option(c"adbc.ingest.target_table", c"t"), ADBC_STATUS_OK);
            o.option(c"adbc.ingest.mode", c"adbc.ingest.mode.replace");
            assert_ne!(o.run(null_mut(), null_mut()), ADBC_STATUS_INTERNAL);
        }
        o.works();
    }
}

/// Changes one thing of a structure: the type of the whole or of its column, a count, or the number of NULLs. No value
/// gets wider, and lengths do not grow: that buffers are as long as that is the caller's word, which nobody can look at.
fn spoil(
    array: &mut FFI_ArrowArray,
    schema: &mut FFI_ArrowSchema,
    random: &mut Random,
    formats: &[&'static CStr],
) {
    let pick = formats[random.next() as usize % formats.len()].to_owned();
    // A schema's release function frees the text that stands as its format.
    // SAFETY: Arrow's C structures, made by the caller; an array's release looks at no field that is changed here.
    unsafe {
        let array = (&raw mut *array).cast::<CArray>();
        let child = *schema.children;
        match random.next() % 8 {
            0 => (*array).null_count = random.next() as i64,
            1 => (*array).n_children = [0, -1, i64::MIN][random.next() as usize % 3],
            2 => (*array).length = (random.next() % 4) as i64,
            3 => (*array).n_buffers = [0, -1, 1][random.next() as usize % 3],
            4 => (*child).flags = random.next() as i64,
            5 => schema.format = CString::from_raw(schema.format.cast_mut()).replaced(pick),
            6 => (*child).format = CString::from_raw((*child).format.cast_mut()).replaced(pick),
            _ => (**(*array).children).null_count = random.next() as i64,
        }
    }
}

/// A text in another's place.
trait Replaced {
    fn replaced(self, other: CString) -> *const c_char;
}

impl Replaced for CString {
    fn replaced(self, other: CString) -> *const c_char {
        drop(self);
        other.into_raw()
    }
}

#[test]
fn sample_batches_are_bound_by_the_table() {
    let mut o = Objects::new();
    assert_eq!(o.sql(c"SELECT ?, ?"), ADBC_STATUS_OK);
    let (mut array, mut schema) = to_ffi(&StructArray::from(sample()).to_data()).unwrap();
    assert_eq!(
        call!(o, StatementBind(&mut o.statement, &mut array, &mut schema, &mut o.error)),
        ADBC_STATUS_OK
    );
    let mut stream = FFI_ArrowArrayStream::empty();
    assert_eq!(o.run(&mut stream, null_mut()), ADBC_STATUS_OK);
    let reader = ArrowArrayStreamReader::try_new(stream).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 3);
}
