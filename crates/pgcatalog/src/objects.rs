//! Everything with an object id, under one roof: relations by id and by name, roles, schemas.
//!
//! Object ids are the catalog's own and never change while the object lives. System tables have
//! fixed ids below 16384, where the catalog's begin; where PostgreSQL fixes one (`pg_class` is 1259) it is used,
//! because clients know them. Constraints and defaults have no id in the catalog: theirs is a
//! hash of the owning table and the name, equally stable.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use halcyon_base::ids::TableId;

use super::Context;
use super::statics::Fixed;
use super::table::Def;
use super::view::View as SystemView;
use super::{halcyon_views, information_schema, pg_catalog, statics};
use halcyon_catalog::{
    Catalog, Check, ForeignKey, Grant, Index, Relation, Schema, Sequence, Table, TableKind, View,
};

/// Namespace of the static rows of `pg_type`, `pg_proc` and their like.
pub(crate) const PG_CATALOG: u32 = 11;
/// The database has one id: there is one database.
pub(crate) const DATABASE: u32 = 5;
/// Owner of what nobody made.
pub(crate) const BOOTSTRAP_ROLE: u32 = 10;

/// A relation, whatever it is.
pub(crate) struct Object {
    pub(crate) oid: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// `None` for system tables: they belong to [`BOOTSTRAP_ROLE`].
    pub(crate) owner: Option<String>,
    pub(crate) what: What,
}

/// What a relation is.
pub(crate) enum What {
    Table(Arc<Table>),
    View(Arc<View>),
    Sequence(Arc<Sequence>),
    /// An index and its table.
    Index(Arc<Table>, Index),
    System(System),
}

/// A system table: rows written on demand, or fixed ones.
#[derive(Clone)]
pub(crate) enum System {
    Written(&'static Def),
    /// A view of schema `halcyon`, which has descriptions.
    View(&'static SystemView),
    Fixed(Fixed),
}

impl System {
    pub(crate) fn schema(&self) -> SchemaRef {
        match self {
            System::Written(def) => def.schema(),
            System::View(view) => view.def.schema(),
            System::Fixed(table) => Arc::clone(&table.schema),
        }
    }
}

impl Object {
    /// `pg_class.relkind`.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.what {
            What::Table(table) => match table.kind {
                TableKind::Ordinary => "r",
                TableKind::Stream => "f",
                TableKind::Materialized(_) => "m",
            },
            What::View(_) => "v",
            What::Sequence(_) => "S",
            What::Index(..) => "i",
            What::System(_) if self.schema == "pg_catalog" && !is_pg_view(&self.name) => "r",
            What::System(_) => "v",
        }
    }

    /// What is granted on it to others than its owner.
    pub(crate) fn grants(&self) -> &[Grant] {
        match &self.what {
            What::Table(table) => &table.grants,
            What::View(view) => &view.grants,
            What::Sequence(sequence) => &sequence.grants,
            What::Index(..) | What::System(_) => &[],
        }
    }

    pub(crate) fn comment(&self) -> Option<&str> {
        match &self.what {
            What::Table(table) => table.comment.as_deref(),
            What::View(view) => view.comment.as_deref(),
            What::Index(_, index) => index.comment.as_deref(),
            What::Sequence(sequence) => sequence.comment.as_deref(),
            What::System(System::View(view)) => Some(view.about.trim()),
            What::System(System::Written(_) | System::Fixed(_)) => None,
        }
    }

    /// The comment on a column, by position from 0.
    pub(crate) fn column_comment(&self, column: usize) -> Option<&str> {
        match &self.what {
            What::Table(table) => table.columns.get(column)?.comment.as_deref(),
            What::System(System::View(view)) => view.meanings.get(column).map(|text| text.trim()),
            What::View(_) | What::Sequence(_) | What::Index(..) | What::System(_) => None,
        }
    }

    /// How many columns may have comments.
    pub(crate) fn column_count(&self) -> usize {
        match &self.what {
            What::Table(table) => table.columns.len(),
            What::System(system) => system.schema().fields().len(),
            What::View(_) | What::Sequence(_) | What::Index(..) => 0,
        }
    }
}

/// Names of `pg_catalog` that are views in PostgreSQL.
fn is_pg_view(name: &str) -> bool {
    #[rustfmt::skip]
    const VIEWS: &[&str] = &[
        "pg_roles", "pg_user", "pg_group", "pg_shadow", "pg_tables", "pg_views", "pg_indexes",
        "pg_sequences", "pg_settings", "pg_locks", "pg_matviews", "pg_policies", "pg_rules",
        "pg_available_extensions", "pg_prepared_statements", "pg_cursors", "pg_timezone_names",
        "pg_replication_slots", "pg_publication_tables", "pg_get_keywords",
    ];
    name.starts_with("pg_stat") && name != "pg_statistic" && !name.starts_with("pg_statistic_ext")
        || VIEWS.contains(&name)
}

/// The catalog's objects, arranged for look-up.
pub(crate) struct Objects {
    /// Relations by id, system tables included.
    pub(crate) relations: BTreeMap<u32, Object>,
    by_name: HashMap<(String, String), u32>,
}

impl Objects {
    /// Arranges a catalog's objects. O(objects).
    pub(crate) fn of(catalog: &Catalog) -> Objects {
        let mut objects = Objects { relations: BTreeMap::new(), by_name: HashMap::new() };
        for (schema, name, oid, system) in system_tables() {
            objects.add(Object {
                oid: *oid,
                schema: (*schema).to_owned(),
                name: (*name).to_owned(),
                owner: None,
                what: What::System(system.clone()),
            });
        }
        for schema in catalog.schemas.values() {
            for (name, relation) in &schema.relations {
                objects.add_relation(catalog, schema, name, relation);
            }
        }
        objects
    }

    fn add_relation(&mut self, catalog: &Catalog, schema: &Schema, name: &str, what: &Relation) {
        let (oid, owner, what) = match what {
            Relation::Table(table) => {
                (table.id.0, table.owner.clone(), What::Table(Arc::clone(table)))
            }
            Relation::View(view) => (view.oid, view.owner.clone(), What::View(Arc::clone(view))),
            Relation::Sequence(sequence) => {
                (sequence.oid, sequence.owner.clone(), What::Sequence(Arc::clone(sequence)))
            }
            Relation::Index { table, index } => {
                let table = catalog.tables.get(table).expect("an index stands with its table");
                let Some(found) = table.indexes.iter().find(|i| i.id == *index) else { return };
                (index.0, table.owner.clone(), What::Index(Arc::clone(table), found.clone()))
            }
        };
        let (schema, name) = (schema.name.clone(), name.to_owned());
        self.add(Object { oid, schema, name, owner: Some(owner), what });
    }

    fn add(&mut self, object: Object) {
        self.by_name.insert((object.schema.clone(), object.name.clone()), object.oid);
        self.relations.insert(object.oid, object);
    }

    /// A relation by id.
    pub(crate) fn get(&self, oid: u32) -> Option<&Object> {
        self.relations.get(&oid)
    }

    /// A relation by schema and name.
    pub(crate) fn named(&self, schema: &str, name: &str) -> Option<&Object> {
        self.get(*self.by_name.get(&(schema.to_owned(), name.to_owned()))?)
    }
}

type SystemTable = (&'static str, &'static str, u32, System);

/// All system tables with their ids, in the order of schema and name.
pub(crate) fn system_tables() -> &'static [SystemTable] {
    static TABLES: OnceLock<Vec<SystemTable>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables: Vec<(&str, &str, System)> = Vec::new();
        let written = |schema: &'static str, defs: &'static [Def]| {
            defs.iter().map(move |def| (schema, def.name, System::Written(def)))
        };
        for defs in pg_catalog::tables() {
            tables.extend(written("pg_catalog", defs));
        }
        tables.extend(
            statics::tables()
                .into_iter()
                .map(|(name, table)| ("pg_catalog", name, System::Fixed(table))),
        );
        for defs in information_schema::tables() {
            tables.extend(written("information_schema", defs));
        }
        tables.extend(
            halcyon_views::VIEWS.iter().map(|view| ("halcyon", view.def.name, System::View(view))),
        );
        tables.sort_by_key(|(schema, name, _)| (*schema, *name));
        let base = |schema: &str| match schema {
            "pg_catalog" => 12000,
            "information_schema" => 13000,
            _ => 14000,
        };
        let mut tables: Vec<SystemTable> = (tables.into_iter().enumerate())
            .map(|(at, (schema, name, system))| {
                let oid = well_known(name).unwrap_or(base(schema) + at as u32);
                (schema, name, oid, system)
            })
            .collect();
        tables.dedup_by_key(|(schema, name, ..)| (*schema, *name));
        tables
    })
}

/// Ids that PostgreSQL fixes for its own tables.
fn well_known(name: &str) -> Option<u32> {
    Some(match name {
        "pg_type" => 1247,
        "pg_attribute" => 1249,
        "pg_proc" => 1255,
        "pg_class" => 1259,
        "pg_authid" => 1260,
        "pg_auth_members" => 1261,
        "pg_database" => 1262,
        "pg_tablespace" => 1213,
        "pg_attrdef" => 2604,
        "pg_constraint" => 2606,
        "pg_depend" => 2608,
        "pg_description" => 2609,
        "pg_index" => 2610,
        "pg_language" => 2612,
        "pg_namespace" => 2615,
        "pg_operator" => 2617,
        "pg_rewrite" => 2618,
        "pg_trigger" => 2620,
        "pg_sequence" => 2224,
        _ => return None,
    })
}

/// A schema's object id as clients see it.
pub(crate) fn schema_oid(schema: &Schema) -> u32 {
    if schema.name == "pg_catalog" { PG_CATALOG } else { schema.oid }
}

/// The id of a schema by name; 0 if there is none.
pub(crate) fn namespace(catalog: &Catalog, name: &str) -> u32 {
    catalog.schemas.get(name).map_or(0, |schema| schema_oid(schema))
}

/// The id of a role by name; that of the bootstrap role if it is gone.
pub(crate) fn role_oid(catalog: &Catalog, name: &str) -> u32 {
    catalog.roles.get(name).map_or(BOOTSTRAP_ROLE, |role| role.oid)
}

/// A name that is stable across versions for what has no id of its own. 30 bits, never 0, above
/// every id that the catalog hands out.
fn hashed(table: &Table, kind: &str, name: &str) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = table.id.0.to_le_bytes();
    for byte in bytes.iter().chain(kind.as_bytes()).chain(b"\0").chain(name.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    0x4000_0000 | ((hash ^ (hash >> 32)) as u32 & 0x3fff_ffff)
}

/// Id of a CHECK constraint.
pub(crate) fn check_oid(table: &Table, check: &Check) -> u32 {
    hashed(table, "check", &check.name)
}

/// Id of a FOREIGN KEY constraint.
pub(crate) fn foreign_key_oid(table: &Table, key: &ForeignKey) -> u32 {
    hashed(table, "foreign key", &key.name)
}

/// Id of a column's default.
pub(crate) fn default_oid(table: &Table, column: &str) -> u32 {
    hashed(table, "default", column)
}

/// The table that a partition belongs to.
pub(crate) fn table_of(context: &Context, partition: u32) -> Option<TableId> {
    let holds = |cells: &[std::sync::Arc<halcyon_txn::PartitionCell>]| {
        cells.iter().any(|cell| cell.id.0 == partition)
    };
    context.catalog.tables.values().find(|table| holds(&table.cells)).map(|table| table.id)
}
