//! A small world of tables whose roots are kept by hand, for tests of the vectorised executor.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::Arc;

use halcyon_base::ids::{PartitionId, TableId};
use halcyon_catalog::session_vars::SessionVars;
use halcyon_catalog::{Catalog, Column, Relation, Table, View};
use halcyon_exec::analytic::AnalyticalPlan;
use halcyon_plan::bind::{Binder, result_columns};
use halcyon_plan::engine::DataFusion;
use halcyon_plan::env::{Clock, Env};
use halcyon_sql::coerce::{self, zone::TimeZone};
use halcyon_sql::error::Result;
use halcyon_sql::parse;
use halcyon_sql::types::SqlType;
use halcyon_sql::values::value_at;
use halcyon_store::{Partition, Value, ValueRef};
use halcyon_txn::{CancelToken, PartitionCell};

/// A small world of tables whose roots are kept by hand.
pub struct World {
    pub catalog: Arc<Catalog>,
    pub session: SessionVars,
    pub df: DataFusion,
    pub roots: HashMap<TableId, Vec<triomphe::Arc<Partition>>>,
}

/// A session of a superuser.
pub fn session() -> SessionVars {
    SessionVars {
        user: "halcyon".into(),
        session_user: "halcyon".into(),
        database: "halcyon".into(),
        search_path: vec!["public".into()],
        names_temporary: false,
        time_zone: "UTC".into(),
        threads: 2,
        placement: halcyon_catalog::session_vars::Placement::of_class(3),
        long_placement: None,
        memory_bytes: 1 << 30,
        temp_file_bytes: None,
        session_id: 7,
        read_only: false,
        sequence_values: Arc::default(),
        copy_folder: None,
    }
}

impl World {
    pub fn new() -> Self {
        let mut world = World {
            catalog: Arc::new(Catalog::initial()),
            session: session(),
            df: DataFusion::default(),
            roots: HashMap::new(),
        };
        world.session.user = world.catalog.roles.keys().next().expect("a superuser").clone();
        world
    }

    pub fn table(&mut self, name: &str, columns: &[(&str, SqlType)], rows: &[&[&str]]) {
        let id = TableId(self.catalog.ids.oid());
        let columns: Vec<Column> =
            columns.iter().map(|(name, ty)| Column::new(*name, *ty)).collect();
        let mut table = Table::new(id, "public", name, "halcyon", columns);
        let mut root = Partition::new(table.store_schema());
        for row in rows {
            let values: Vec<Value> = row
                .iter()
                .zip(&table.columns)
                .map(|(text, column)| match *text {
                    "" => Value::Null,
                    text => coerce::parse_owned(text, column.ty, &TimeZone::UTC).expect(text),
                })
                .collect();
            let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
            root.insert(&values).expect("no index");
        }
        let partition = PartitionId(id.0);
        table.cells.push(Arc::new(PartitionCell::new(partition, root.clone())));
        self.roots.insert(id, vec![triomphe::Arc::new(root)]);
        let mut catalog = (*self.catalog).clone();
        catalog.put("public", name, Relation::Table(Arc::new(table)));
        self.catalog = Arc::new(catalog);
    }

    pub fn view(&mut self, name: &str, query: &str, columns: &[(&str, SqlType)]) {
        let mut catalog = (*self.catalog).clone();
        let view = View {
            oid: catalog.ids.oid(),
            schema: "public".into(),
            name: name.into(),
            query: query.into(),
            columns: columns.iter().map(|(name, ty)| ((*name).into(), *ty)).collect(),
            owner: "halcyon".into(),
            grants: Vec::new(),
            comment: None,
            options: Default::default(),
            defaults: Default::default(),
        };
        catalog.put("public", name, Relation::View(Arc::new(view)));
        self.catalog = Arc::new(catalog);
    }

    pub fn plan(&self, text: &str) -> Result<(AnalyticalPlan, Vec<SqlType>)> {
        let parsed = parse::parse(text)?.pop().expect("a statement");
        let Some(query) = parsed.statement.into_query() else { panic!("not a query: {text}") };
        let binder = Binder::new(&self.catalog, &self.session, &self.df);
        let bound =
            parse::with_stack(|| binder.query_with(*query.clone(), None, &[], parsed.text))?;
        let plan = binder.optimize(bound.plan)?;
        Ok((AnalyticalPlan::new(plan, &self.df), bound.params))
    }

    pub fn run(&self, plan: &AnalyticalPlan, params: &[Value]) -> Result<Vec<Vec<String>>> {
        let cancel = CancelToken::new();
        let env = Env {
            catalog: &self.catalog,
            params,
            session: &self.session,
            clock: Clock::since(1_600_000_000_000_000),
            cancel: &cancel,
            workers: None,
        };
        let roots = plan.tables().iter().map(|table| self.roots[&table.id].clone()).collect();
        let columns = result_columns(plan.logical());
        let mut rows = Vec::new();
        for batch in plan.start(&env, roots)? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let cells =
                    batch.columns().iter().zip(columns.iter()).map(|(array, column)| {
                        match (value_at(array.as_ref(), row), column.ty) {
                            (Some(ValueRef::Null), _) => "∅".to_owned(),
                            (Some(value), Some(ty)) => coerce::to_text(value, ty, &TimeZone::UTC),
                            _ => "?".to_owned(),
                        }
                    });
                rows.push(cells.collect());
            }
        }
        Ok(rows)
    }

    pub fn rows(&self, text: &str) -> Result<Vec<Vec<String>>> {
        let (plan, _) = self.plan(text)?;
        self.run(&plan, &[])
    }
}
