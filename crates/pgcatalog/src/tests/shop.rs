//! The catalog that `shop.sql` makes, built by hand, with a few rows in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_base::ids::{IndexId, PartitionId, TableId};
use halcyon_store::{Partition, Value};
use halcyon_txn::PartitionCell;

use crate::{
    Accounts, Context, CursorRow, Live, LockRow, SessionRow, SessionState, SettingRow,
    StatementRow, TransactionRow,
};
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{
    Action, Catalog, Check, Column, ForeignKey, Grant, Identity, Index, IndexColumn,
    IndexConstraint, Privilege, Relation, Role, Schema, Sequence, SequenceOptions, Table, View,
};
use halcyon_sql::types::SqlType;

/// Table `customer`.
pub(super) const CUSTOMER: TableId = TableId(20001);
const ORDERS: TableId = TableId(20002);
/// The partition of `customer`.
const CUSTOMER_CELL: u32 = 1;

/// The context of a session of `user`.
pub(super) fn context(user: &str) -> Arc<Context> {
    let session = SessionVars {
        user: user.to_owned(),
        session_user: user.to_owned(),
        database: "halcyon".to_owned(),
        search_path: vec!["$user".to_owned(), "public".to_owned()],
        names_temporary: false,
        time_zone: "UTC".to_owned(),
        threads: 1,
        placement: halcyon_catalog::session_vars::Placement::of_class(3),
        long_placement: None,
        memory_bytes: 1 << 20,
        temp_file_bytes: None,
        session_id: 7,
        read_only: false,
        sequence_values: Arc::default(),
        copy_folder: None,
    };
    let catalog = Arc::new(catalog());
    let roots = catalog.tables.values().map(|table| (table.id, vec![root(table)])).collect();
    Context::new(catalog, session, Arc::new(Engine { roots }))
}

/// Replaces `{schema.name}` by the relation's id.
pub(super) fn with_ids(context: &Context, text: &str) -> String {
    let mut text = text.to_owned();
    for (oid, object) in &context.objects().relations {
        text = text.replace(&format!("{{{}.{}}}", object.schema, object.name), &oid.to_string());
    }
    text
}

/// Replaces a cell that is the id of one of the shop's relations by `{schema.name}`.
pub(super) fn with_names(context: &Context, cell: &str) -> String {
    let object = cell.parse().ok().filter(|oid| *oid > 20000);
    match object.and_then(|oid| context.objects().get(oid)) {
        Some(object) => format!("{{{}.{}}}", object.schema, object.name),
        None => cell.to_owned(),
    }
}

/// An engine in which one session updates and another looks on.
struct Engine {
    roots: BTreeMap<TableId, Vec<triomphe::Arc<Partition>>>,
}

impl Live for Engine {
    fn accounts(&self) -> Accounts {
        Accounts::default()
    }

    fn log(&self) -> Option<crate::LogRow> {
        None
    }

    fn version(&self) -> String {
        "Halcyon test".to_owned()
    }

    fn started_us(&self) -> i64 {
        1_000_000
    }

    fn sessions(&self) -> Vec<SessionRow> {
        let row = |id, user: &str, state, statement: &str| SessionRow {
            id,
            user: user.to_owned(),
            role: user.to_owned(),
            state,
            statement: Some(statement.to_owned()),
            started_us: 2_000_000,
            ..SessionRow::default()
        };
        vec![
            row(7, "ana", SessionState::Active, "SELECT 1"),
            row(8, "halcyon", SessionState::IdleInTransaction, "UPDATE customer"),
        ]
    }

    fn statements(&self) -> Vec<StatementRow> {
        let text = "SELECT 1".to_owned();
        let total_ns = 2_000_000;
        vec![StatementRow { text, executor: "point", calls: 4, total_ns, ..Default::default() }]
    }

    fn locks(&self) -> Vec<LockRow> {
        let (partition, transaction, session) = (CUSTOMER_CELL, 3, 8);
        vec![LockRow { partition, transaction, session, exclusive: true, granted: true }]
    }

    fn transactions(&self) -> Vec<TransactionRow> {
        let isolation = "serializable";
        vec![TransactionRow { id: 3, session: 8, isolation, ..Default::default() }]
    }

    fn cursors(&self) -> Vec<CursorRow> {
        Vec::new()
    }

    fn settings(&self) -> Vec<SettingRow> {
        let row = |name: &'static str, value: &str, number: &str| SettingRow {
            name: name.into(),
            value: value.to_owned(),
            number: number.to_owned(),
            kind: "integer",
            ..SettingRow::default()
        };
        vec![row("max_index_keys", "32", "32"), row("work_mem", "4MB", "4096")]
    }

    fn workers(&self) -> Vec<crate::WorkerRow> {
        let (number, session, state) = (0, Some(7), "busy");
        vec![crate::WorkerRow { number, session, state, ..Default::default() }]
    }

    fn tasks(&self) -> Vec<crate::TasksRow> {
        vec![crate::TasksRow { session: 7, tasks: 3, running: 1, workers: 1, ..Default::default() }]
    }

    fn effects(&self) -> Option<&dyn crate::Effects> {
        None
    }

    fn roots(&self, table: &Table) -> Vec<triomphe::Arc<Partition>> {
        self.roots[&table.id].clone()
    }
}

/// The table's rows: three customers, no orders.
fn root(table: &Table) -> triomphe::Arc<Partition> {
    let mut root = Partition::new(table.store_schema());
    for index in &table.indexes {
        root.add_index(index.def()).expect("there are no rows yet");
    }
    let rows = if table.id == CUSTOMER { 3 } else { 0 };
    for id in 1..=rows {
        let email = format!("c{id}@shop.example");
        let row = [
            Value::Int32(id),
            Value::Text(format!("customer {id}")),
            Value::Text(email),
            Value::Null,
            Value::Decimal(0),
            Value::Null,
        ];
        let row: Vec<_> = row.iter().map(Value::as_ref).collect();
        root.insert(&row).expect("the keys differ");
    }
    triomphe::Arc::new(root)
}

fn not_null(column: Column) -> Column {
    Column { not_null: true, ..column }
}

fn default(column: Column, text: &str) -> Column {
    Column { default: Some(text.to_owned()), ..column }
}

fn key(columns: &[(u16, bool)]) -> Vec<IndexColumn> {
    let key = |&(column, descending)| IndexColumn { column, descending, nulls_first: descending };
    columns.iter().map(key).collect()
}

fn index(id: u32, name: &str, columns: &[(u16, bool)], made_by: Option<IndexConstraint>) -> Index {
    let index = Index::new(IndexId(id), name.to_owned(), key(columns));
    Index { unique: made_by.is_some(), constraint: made_by, ..index }
}

fn table(id: TableId, schema: &str, name: &str, cell: u32, columns: Vec<Column>) -> Table {
    let mut table = Table::new(id, schema, name, "halcyon", columns);
    let root = Partition::new(table.store_schema());
    table.cells = vec![Arc::new(PartitionCell::new(PartitionId(cell), root))];
    table
}

fn grant(grantee: &str, privilege: Privilege, grantable: bool) -> Grant {
    Grant { grantee: grantee.to_owned(), grantor: "halcyon".to_owned(), privilege, grantable }
}

fn customer() -> Table {
    let balance = SqlType::Decimal { precision: 12, scale: 2 };
    let identity = Identity { always: true, sequence: "customer_id_seq".to_owned() };
    let email = Column::new("email", SqlType::Text);
    let columns = vec![
        Column { identity: Some(identity), ..not_null(Column::new("id", SqlType::Integer)) },
        not_null(Column::new("name", SqlType::Varchar(Some(40)))),
        Column { comment: Some("confirmed by mail".to_owned()), ..email },
        Column::new("code", SqlType::Char(Some(4))),
        default(not_null(Column::new("balance", balance)), "0"),
        Column::new("since", SqlType::Date),
    ];
    let mut table = table(CUSTOMER, "public", "customer", CUSTOMER_CELL, columns);
    table.indexes = vec![
        index(20011, "customer_pkey", &[(0, false)], Some(IndexConstraint::PrimaryKey)),
        index(20012, "customer_email_key", &[(2, false)], Some(IndexConstraint::Unique)),
    ];
    let (name, expr) = ("customer_balance_check".to_owned(), "balance >= 0".to_owned());
    table.checks = vec![Check::new(name, expr)];
    table.referenced_by = vec![(ORDERS, "orders_customer_id_fkey".to_owned())];
    table.grants = vec![
        grant("reporting", Privilege::Select, false),
        grant("reporting", Privilege::Insert, false),
        grant("public", Privilege::Select, false),
    ];
    table.comment = Some("who buys".to_owned());
    table
}

fn orders() -> Table {
    let columns = vec![
        default(not_null(Column::new("id", SqlType::BigInt)), "nextval('shop.order_no'::regclass)"),
        not_null(Column::new("line", SqlType::SmallInt)),
        not_null(Column::new("customer_id", SqlType::Integer)),
        not_null(Column::new("placed", SqlType::TimestampTz)),
        default(Column::new("open", SqlType::Boolean), "true"),
        Column::new("note", SqlType::Text),
    ];
    let mut table = table(ORDERS, "shop", "orders", 2, columns);
    table.indexes = vec![
        index(20021, "orders_pkey", &[(0, false), (1, false)], Some(IndexConstraint::PrimaryKey)),
        index(20022, "orders_by_customer", &[(2, false), (3, true)], None),
    ];
    table.foreign_keys = vec![ForeignKey {
        name: "orders_customer_id_fkey".to_owned(),
        columns: vec![2],
        target: CUSTOMER,
        target_columns: vec![0],
        on_delete: Action::SetNull,
        on_delete_columns: Vec::new(),
        on_update: Action::Cascade,
        deferral: None,
        full: false,
        not_valid: false,
        comment: None,
    }];
    table
}

fn sequence(oid: u32, schema: &str, name: &str, start: i64, max: i64) -> Sequence {
    Sequence {
        oid,
        schema: schema.to_owned(),
        name: name.to_owned(),
        options: SequenceOptions { start, increment: 1, min: 1, max, cycle: false },
        position: halcyon_catalog::sequence::Position::new(&Default::default(), start - 1),
        owned_by: None,
        owner: "halcyon".to_owned(),
        grants: Vec::new(),
        comment: None,
    }
}

fn rich() -> View {
    View {
        oid: 20031,
        schema: "public".to_owned(),
        name: "rich".to_owned(),
        query: "SELECT id, name FROM customer WHERE balance > 1000".to_owned(),
        columns: vec![
            ("id".to_owned(), SqlType::Integer),
            ("name".to_owned(), SqlType::Varchar(Some(40))),
        ],
        owner: "halcyon".to_owned(),
        grants: vec![grant("ana", Privilege::Select, true)],
        comment: Some("good customers".to_owned()),
        options: Default::default(),
        defaults: Default::default(),
    }
}

fn role(oid: u32, name: &str, login: bool, member_of: &[&str]) -> (String, Arc<Role>) {
    let role = Role {
        oid,
        name: name.to_owned(),
        login,
        superuser: false,
        create_role: false,
        create_db: false,
        verifier: None,
        member_of: member_of.iter().map(|name| (*name).to_owned()).collect(),
        comment: None,
        defaults: Vec::new(),
    };
    (name.to_owned(), Arc::new(role))
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::initial();
    catalog.roles.extend([role(20041, "ana", true, &["reporting"])]);
    catalog.roles.extend([role(20042, "reporting", false, &[])]);
    let shop = Schema {
        oid: 20043,
        name: "shop".to_owned(),
        owner: "halcyon".to_owned(),
        relations: BTreeMap::new(),
        collations: BTreeMap::new(),
        grants: Vec::new(),
        comment: Some("where things are sold".to_owned()),
    };
    catalog.schemas.insert("shop".to_owned(), Arc::new(shop));
    for table in [customer(), orders()] {
        let (id, schema, name) = (table.id, table.schema.clone(), table.name.clone());
        let indexes: Vec<_> = table.indexes.iter().map(|i| (i.id, i.name.clone())).collect();
        let table = Arc::new(table);
        catalog.tables.insert(id, Arc::clone(&table));
        catalog.put(&schema, &name, Relation::Table(table));
        for (index, name) in indexes {
            catalog.put(&schema, &name, Relation::Index { table: id, index });
        }
    }
    let mut ids = sequence(20051, "public", "customer_id_seq", 1, i64::from(i32::MAX));
    ids.owned_by = Some((CUSTOMER, 0));
    catalog.put("public", "customer_id_seq", Relation::Sequence(Arc::new(ids)));
    let order_no = sequence(20052, "shop", "order_no", 100, i64::MAX);
    catalog.put("shop", "order_no", Relation::Sequence(Arc::new(order_no)));
    catalog.put("public", "rich", Relation::View(Arc::new(rich())));
    catalog
}
