//! COPY FROM and TO: text, CSV, binary and Parquet.
//!
//! Rows come in as bytes in pieces of any size ([`CopyIn::push`]) and go out in chunks
//! ([`CopyOut`]); in between they are vectors. A COPY is one statement: when a line is
//! refused, the caller undoes the rows of all lines before.
//!
//! Cost: a batch of rows costs one append per partition; nothing is kept of rows that are stored.
#![forbid(unsafe_code)]

mod binary;
mod condition;
pub mod folder;
mod format;
mod input;
mod orderbook;
mod output;
mod parquet;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::sqlparser::ast::{
    CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, SelectItem,
};
use halcyon_base::progress::{self, Kind, Phase, Unit};
use halcyon_txn::{Mode, Savepoint, Transaction};

use halcyon_catalog::{Privilege, Table};
use halcyon_exec::deferrable::DeferrableCheck;
use halcyon_exec::dml::bulk::Writer;
use halcyon_exec::dml::{Cell, QuerySource, Scope, Target, default_cell, whole_roots};
use halcyon_exec::point::Scratch;
use halcyon_exec::upkeep::{self, FedViews};
use halcyon_plan::bind::{Binder, result_columns};
use halcyon_plan::env::{Env, Locks, Need, Roots};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::rows::ResultColumn;
use halcyon_sql::syntax::Filtered;
use halcyon_sql::types::SqlType;

use condition::Condition;
pub use format::{Format, Header, Options};
pub use input::CopyIn;
use orderbook::Orders;
pub use orderbook::bind as bind_orders;
pub use output::CopyOut;

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataPlace {
    /// With the client: STDIN or STDOUT.
    Client,
    /// In a file that the engine can reach.
    File(String),
}

/// A bound COPY.
pub struct CopyPlan {
    tables: Vec<Arc<Table>>,
    options: Options,
    place: DataPlace,
    kind: CopyKind,
    /// DEFERRABLE constraints, which the session that runs the plan judges.
    deferrable: Vec<DeferrableCheck>,
}

enum CopyKind {
    From(Box<From>),
    To {
        source: QuerySource,
        columns: Vec<ResultColumn>,
        /// The table, unless a query is copied.
        table: Option<Arc<Table>>,
    },
    Orders(Box<Orders>),
}

/// COPY FROM: what becomes of a line.
struct From {
    writer: Writer,
    whole: Vec<(usize, Mode)>,
    at: usize,
    /// Positions of the columns that the data has.
    columns: Vec<u16>,
    /// What the other columns get.
    defaults: Vec<Option<Cell>>,
    /// Views to be brought up to date with the rows.
    views: FedViews,
    /// Which rows are stored, if not all are.
    condition: Option<Condition>,
}

impl From {
    /// Whether work remains when all rows are stored.
    fn is_followed(&self) -> bool {
        !self.views.is_empty() || self.writer.table().is_stream()
    }

    /// Brings views up to date. Errors: what they fail at; the caller takes the rows back.
    fn end(&self, since: &Savepoint, env: &Env<'_>, tx: &mut Transaction) -> Result<()> {
        self.views.end(since, env, tx)?;
        let table = self.writer.table();
        if table.is_stream() {
            upkeep::empty_stream(table, tx);
        }
        Ok(())
    }
}

/// A plan and the columns of its data.
pub struct BoundCopy {
    /// The plan.
    pub plan: CopyPlan,
    /// Columns of the data, for the protocol's description.
    pub columns: Arc<[ResultColumn]>,
}

/// A COPY as the statement's text has it.
pub struct ParsedCopy<'a> {
    /// The table or query.
    pub source: &'a CopySource,
    /// TO, else FROM.
    pub to: bool,
    /// The other end.
    pub target: &'a CopyTarget,
    /// Options between brackets.
    pub options: &'a [CopyOption],
    /// Options of PostgreSQL before 9.0.
    pub legacy_options: &'a [CopyLegacyOption],
}

/// Binds COPY. `text` is the statement's, for positions in errors.
pub fn bind(
    binder: &Binder<'_>,
    parsed: &ParsedCopy<'_>,
    text: &str,
    param_types: &[Option<SqlType>],
) -> Result<BoundCopy> {
    let ParsedCopy { source, to, target, options, legacy_options } = *parsed;
    let options = Options::from_ast(options, legacy_options, to)?;
    let place = match target {
        CopyTarget::Stdin | CopyTarget::Stdout => DataPlace::Client,
        CopyTarget::File { filename } => DataPlace::File(permitted_file(binder, filename)?),
        CopyTarget::Program { .. } => return Err(SqlError::unsupported("COPY … PROGRAM")),
    };
    if options.format == Format::Parquet && place == DataPlace::Client {
        return Err(SqlError::unsupported("Parquet from stdin or to stdout").hint("Name a file."));
    }
    match to {
        false => {
            let scope = Scope::new(binder, text, param_types.to_vec());
            bind_from(binder, scope, source, options, place)
        }
        true => bind_to(binder, source, options, place),
    }
}

/// The path, if the user may reach files. Errors: 42501.
fn permitted_file(binder: &Binder<'_>, path: &str) -> Result<String> {
    match binder.catalog.is_superuser(&binder.session.user) {
        true => Ok(path.to_owned()),
        false => Err(SqlError::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "permission denied to COPY to or from a file",
        )
        .hint("Anyone can COPY to stdout or from stdin.")),
    }
}

fn bind_from(
    binder: &Binder<'_>,
    mut scope: Scope<'_>,
    source: &CopySource,
    options: Options,
    place: DataPlace,
) -> Result<BoundCopy> {
    let (table_name, names, condition) = match source {
        CopySource::Table { table_name, columns } => (table_name.clone(), columns.clone(), None),
        CopySource::Query(_) => {
            let filtered = Filtered::of(source)
                .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "COPY FROM needs a table"))?;
            (filtered.table_name, filtered.columns, Some(filtered.condition))
        }
    };
    let table = halcyon_exec::dml::find_target(binder, &table_name, "copy to")?;
    binder.catalog.require_on_table(&binder.session.user, &table, Privilege::Insert)?;
    let mut columns = Vec::new();
    for name in &names {
        let column = table.require_column(&fold(name))?;
        if columns.contains(&column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", fold(name)),
            ));
        }
        refuse_generated(&table, column)?;
        columns.push(column);
    }
    if names.is_empty() {
        columns = copied_columns(&table);
    }
    let mut defaults = Vec::new();
    for column in 0..table.columns.len() as u16 {
        defaults.push(match columns.contains(&column) {
            true => None,
            false => Some(default_cell(binder, &table, column)?),
        });
    }
    let condition =
        condition.map(|condition| Condition::bind(binder, &table, &condition)).transpose()?;
    let target = Target::bind(&mut scope, &table, None)?;
    let at = target.at;
    scope.need_whole(at, Mode::Exclusive);
    let views = scope.feed(&table)?;
    let shown = columns.iter().map(|column| result_column(&table, *column)).collect();
    let (tables, whole, deferrable) = scope.into_parts();
    let writer = Writer::for_table(target);
    let from = From { writer, whole, at, columns, defaults, views, condition };
    let kind = CopyKind::From(Box::new(from));
    let plan = CopyPlan { tables, options, place, kind, deferrable };
    Ok(BoundCopy { plan, columns: shown })
}

/// The columns that COPY without a list of columns copies: all but generated ones.
fn copied_columns(table: &Table) -> Vec<u16> {
    let is_copied = |at: &u16| table.columns[*at as usize].generated.is_none();
    (0..table.columns.len() as u16).filter(is_copied).collect()
}

/// 42P10: COPY neither reads nor writes generated columns.
fn refuse_generated(table: &Table, column: u16) -> Result<()> {
    let column = &table.columns[column as usize];
    match column.generated {
        None => Ok(()),
        Some(_) => Err(SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            format!("column \"{}\" is a generated column", column.name),
        )
        .detail("Generated columns cannot be used in COPY.")),
    }
}

fn result_column(table: &Table, column: u16) -> ResultColumn {
    let definition = &table.columns[column as usize];
    ResultColumn {
        name: definition.name.clone(),
        field: table.arrow.fields()[column as usize].clone(),
        ty: Some(definition.ty),
        origin: Some((table.id.0, column + 1)),
    }
}

fn bind_to(
    binder: &Binder<'_>,
    source: &CopySource,
    options: Options,
    place: DataPlace,
) -> Result<BoundCopy> {
    let mut copied = None;
    let query = match source {
        CopySource::Query(query) => (**query).clone(),
        CopySource::Table { table_name, columns } => {
            let name = parts(table_name)?;
            let path: Vec<String> = binder.search_path().map(str::to_owned).collect();
            let mut columns = columns.clone();
            copied = binder.catalog.find_table(&name, &path).ok();
            if let Some(table) = copied.as_ref().filter(|table| table.has_generated()) {
                for column in columns.iter().filter_map(|name| table.column(&fold(name))) {
                    refuse_generated(table, column)?;
                }
                if columns.is_empty() {
                    let name = |at: u16| Ident::with_quote('"', &table.columns[at as usize].name);
                    columns = copied_columns(table).into_iter().map(name).collect();
                }
            }
            let mut query =
                halcyon_sql::parse::parse_query(&format!("SELECT * FROM {table_name}"))?;
            if let datafusion::sql::sqlparser::ast::SetExpr::Select(select) = query.body.as_mut()
                && !columns.is_empty()
            {
                let item = |name: &Ident| {
                    SelectItem::UnnamedExpr(datafusion::sql::sqlparser::ast::Expr::Identifier(
                        name.clone(),
                    ))
                };
                select.projection = columns.iter().map(item).collect();
            }
            query
        }
    };
    let plan = binder.query(&query)?;
    let columns = result_columns(&plan);
    let source = QuerySource::new(plan, binder)?;
    let plan = CopyPlan {
        tables: source.tables().to_vec(),
        options,
        place,
        kind: CopyKind::To { source, columns: columns.to_vec(), table: copied },
        deferrable: Vec::new(),
    };
    Ok(BoundCopy { plan, columns })
}

impl CopyPlan {
    /// Whether rows are read into a table.
    pub fn is_from(&self) -> bool {
        !matches!(self.kind, CopyKind::To { .. })
    }

    /// The tables it reads or writes, in the order its needs refer to.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// DEFERRABLE constraints that the plan may break: the session that runs the plan judges them.
    pub fn deferrable(&self) -> &[DeferrableCheck] {
        &self.deferrable
    }

    /// What it locks.
    pub fn needs(&self, env: &Env<'_>, needs: &mut Vec<Need>) -> Result<()> {
        match &self.kind {
            CopyKind::To { source, .. } => source.needs(env, needs),
            CopyKind::Orders(orders) => {
                needs.extend(orders.whole.iter().map(|(table, mode)| Need {
                    table: *table,
                    partition: None,
                    mode: *mode,
                }));
                Ok(())
            }
            CopyKind::From(from) => {
                needs.extend(from.whole.iter().map(|(table, mode)| Need {
                    table: *table,
                    partition: None,
                    mode: *mode,
                }));
                Ok(())
            }
        }
    }

    /// Whether it is COPY TO.
    pub fn reads_only(&self) -> bool {
        matches!(self.kind, CopyKind::To { .. })
    }

    /// Where the bytes are.
    pub fn place(&self) -> &DataPlace {
        &self.place
    }

    /// Whether the data is binary.
    pub fn is_binary(&self) -> bool {
        self.options.format == Format::Binary
    }

    /// Columns of the data.
    pub fn column_count(&self) -> usize {
        match &self.kind {
            CopyKind::From(from) => from.columns.len(),
            CopyKind::To { columns, .. } => columns.len(),
            CopyKind::Orders(_) => orderbook::FIELDS.len(),
        }
    }

    /// Begins COPY FROM STDIN. Panics: if it is COPY TO.
    pub fn begin_input(&self) -> CopyIn {
        CopyIn::new(self, None)
    }

    /// Runs COPY FROM a file. Returns the rows stored. Panics: if it is COPY TO.
    pub fn run_from_file(&self, env: &Env<'_>, tx: &mut Transaction, locks: &Locks) -> Result<u64> {
        let DataPlace::File(path) = &self.place else { panic!("this COPY does not read a file") };
        let within = env.session.copy_folder.as_ref().map(|folder| within(folder, path));
        let path = &within.map_or_else(|| path.clone(), |path| path.display().to_string());
        if let (CopyKind::From(from), Format::Parquet) = (&self.kind, self.options.format) {
            return parquet::read(from, path, env, tx, locks);
        }
        let mut file = std::fs::File::open(path).map_err(|error| file_error(path, &error))?;
        // Pipes and devices have no length.
        let length = file.metadata().ok().filter(Metadata::is_file).map(|found| found.len());
        let mut input = CopyIn::new(self, length);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = std::io::Read::read(&mut file, &mut buffer)
                .map_err(|error| file_error(path, &error))?;
            if read == 0 {
                break;
            }
            input.push(self, &buffer[..read], env, tx, locks)?;
            if env.cancel.is_cancelled() {
                return Err(SqlError::new(
                    SqlState::QUERY_CANCELED,
                    "canceling statement due to user request",
                ));
            }
        }
        input.finish(self, env, tx, locks)
    }

    /// Begins COPY TO over roots by table of the plan. Panics: if it is COPY FROM.
    pub fn begin_output(
        &self,
        env: &Env<'_>,
        roots: Roots<'_>,
        scratch: &mut Scratch,
    ) -> Result<CopyOut> {
        let CopyKind::To { source, columns, table } = &self.kind else {
            panic!("COPY FROM gives no data")
        };
        let kind = match self.place {
            DataPlace::Client => Kind::CopyToClient,
            DataPlace::File(_) => Kind::CopyToFile,
        };
        let work = progress::begin(kind, table.as_ref().map(|table| table.shown()));
        let is_all = |table: &Arc<Table>| source.tables().iter().all(|read| read.id == table.id);
        let rows = table.as_ref().filter(|table| is_all(table)).map(|_| {
            let roots = whole_roots(source.tables(), roots);
            roots.iter().flatten().map(|root| root.row_count()).sum()
        });
        work.stage(Phase::Copying, Unit::Rows, rows);
        CopyOut::new(source, columns, &self.options, env, roots, scratch, work)
    }

    /// Runs COPY TO a file. Returns the rows written. Panics: if it is COPY FROM.
    pub fn run_to_file(
        &self,
        env: &Env<'_>,
        roots: Roots<'_>,
        scratch: &mut Scratch,
    ) -> Result<u64> {
        let DataPlace::File(path) = &self.place else { panic!("this COPY does not write a file") };
        let output = self.begin_output(env, roots, scratch)?;
        let fail = |error: std::io::Error| file_error(path, &error);
        let (beside, file) = unfinished(Path::new(path)).map_err(fail)?;
        let written = self.write_output(output, file, path).and_then(|rows| match &beside {
            Some(beside) => std::fs::rename(beside, path).map(|()| rows).map_err(fail),
            None => Ok(rows),
        });
        if let (Err(_), Some(beside)) = (&written, &beside) {
            let _ = std::fs::remove_file(beside);
        }
        written
    }

    fn write_output(
        &self,
        mut output: CopyOut,
        mut file: std::fs::File,
        path: &str,
    ) -> Result<u64> {
        if self.options.format == Format::Parquet {
            return parquet::write(output, file, path);
        }
        while let Some(chunk) = output.next_chunk()? {
            let written = std::io::Write::write_all(&mut file, &chunk);
            written.map_err(|error| file_error(path, &error))?;
        }
        Ok(output.rows())
    }
}

/// The file that COPY TO writes: beside the target, to be renamed once it is whole; the target itself
/// where that is no file (`/dev/stdout`, a pipe).
fn unfinished(path: &Path) -> std::io::Result<(Option<PathBuf>, std::fs::File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let special = std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file());
    let (false, Some(name)) = (special, path.file_name()) else {
        return std::fs::File::create(path).map(|file| (None, file));
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(".{}.{}.{number}", name.to_string_lossy(), std::process::id());
    let beside = path.with_file_name(name);
    let file = std::fs::File::create(&beside)?;
    if let Ok(found) = std::fs::metadata(path) {
        file.set_permissions(found.permissions())?;
    }
    Ok((Some(beside), file))
}

/// A file of an exported folder: DuckDB writes where it lay when it was exported.
fn within(folder: &Path, path: &str) -> PathBuf {
    let named = folder.join(path);
    match Path::new(path).file_name() {
        Some(name) if !named.exists() => folder.join(name),
        _ => named,
    }
}

/// 58P01, 42501 or 58030.
fn file_error(path: &str, error: &std::io::Error) -> SqlError {
    let state = match error.kind() {
        std::io::ErrorKind::NotFound => SqlState::UNDEFINED_FILE,
        std::io::ErrorKind::PermissionDenied => SqlState::INSUFFICIENT_PRIVILEGE,
        _ => SqlState::IO_ERROR,
    };
    SqlError::new(state, format!("could not open file \"{path}\": {error}"))
}
