//! Types that users define: enumerations and domains.
//!
//! A type stands among the relations of its schema, because a table's name names a type as well.
//! What is stored names an enumeration by its number in this catalog ([`EnumId::stored`]); in a catalog at
//! work every column has the id under which the enumeration is registered in the process. [`registered`] and
//! [`unregistered`] turn one into the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_collations::Collation;
use halcyon_sql::enums::{Definition, EnumId, Enumeration, Label};
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::types::SqlType;
use serde::{Deserialize, Serialize};

use crate::table::{Check, Column};
use crate::{Catalog, Found, Relation, Schema, Table, View, display_name};

/// A type that a user has defined.
#[derive(Clone)]
pub struct UserType {
    /// Its number in the catalog. Clients are told another one if it is an enumeration ([`UserType::oid`]).
    pub id: u32,
    /// Schema name.
    pub schema: String,
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
    /// Role that owns it.
    pub owner: String,
    /// COMMENT ON TYPE.
    pub comment: Option<String>,
}

/// What a type of a user is.
#[derive(Clone)]
pub enum TypeKind {
    /// Labels in an order.
    Enum {
        /// By ascending position.
        labels: Vec<Label>,
        /// The registered enumeration, whose labels are those that are committed.
        registered: Arc<Enumeration>,
    },
    /// Values of another type that satisfy conditions.
    Domain(Domain),
}

/// What a domain's values are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Domain {
    /// The type that values are of.
    pub base: SqlType,
    /// NOT NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_null: bool,
    /// COLLATE, which columns of the domain have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collation: Option<Collation>,
    /// DEFAULT expression as SQL text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// CHECK constraints, whose texts speak of `value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

/// A type as it is stored.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredType {
    pub id: u32,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    labels: Option<Vec<Label>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    domain: Option<Domain>,
    owner: String,
    comment: Option<String>,
}

impl UserType {
    /// Object id of its row in `pg_type`.
    pub fn oid(&self) -> u32 {
        match &self.kind {
            TypeKind::Enum { registered, .. } => registered.id().oid(),
            TypeKind::Domain(_) => self.id,
        }
    }

    /// What PostgreSQL calls it.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            TypeKind::Enum { .. } => "type",
            TypeKind::Domain(_) => "domain",
        }
    }

    /// The type of its values.
    pub fn ty(&self) -> SqlType {
        match &self.kind {
            TypeKind::Enum { registered, .. } => SqlType::Enum(registered.id()),
            TypeKind::Domain(domain) => domain.base,
        }
    }

    /// The domain, if it is one.
    pub fn domain(&self) -> Option<&Domain> {
        match &self.kind {
            TypeKind::Domain(domain) => Some(domain),
            TypeKind::Enum { .. } => None,
        }
    }

    /// Makes the registered definition the one of this catalog if no other transaction sees the type, or all
    /// are to see it so.
    fn register(&self, for_all: bool) {
        let TypeKind::Enum { registered, labels } = &self.kind else { return };
        let definition = || Definition::new(&self.schema, &self.name, labels);
        match for_all {
            true => registered.publish(definition()),
            false if !registered.is_published() => registered.define(definition()),
            false => {}
        }
    }

    pub(crate) fn stored(&self, catalog: &Catalog) -> StoredType {
        let (labels, domain) = match &self.kind {
            TypeKind::Enum { labels, .. } => (Some(labels.clone()), None),
            TypeKind::Domain(domain) => {
                let base = unregistered(domain.base, catalog);
                (None, Some(Domain { base, ..domain.clone() }))
            }
        };
        let (owner, comment) = (self.owner.clone(), self.comment.clone());
        StoredType { id: self.id, name: self.name.clone(), labels, domain, owner, comment }
    }

    /// Of a type that was stored. `ids`: the enumerations that have been restored, by number in the catalog.
    ///
    /// Errors: 54000 for more enumerations than a process has room for.
    pub(crate) fn restore(
        schema: &str,
        stored: StoredType,
        ids: &mut BTreeMap<u32, EnumId>,
    ) -> Result<Self> {
        let kind = match (stored.labels, stored.domain) {
            (_, Some(domain)) => {
                TypeKind::Domain(Domain { base: registered(domain.base, ids), ..domain })
            }
            (labels, None) => {
                let labels = labels.unwrap_or_default();
                let definition = Definition::new(schema, &stored.name, &labels);
                let registered = Enumeration::new(definition.clone())?;
                registered.publish(definition);
                ids.insert(stored.id, registered.id());
                TypeKind::Enum { labels, registered }
            }
        };
        Ok(UserType {
            id: stored.id,
            schema: schema.to_owned(),
            name: stored.name,
            kind,
            owner: stored.owner,
            comment: stored.comment,
        })
    }
}

impl StoredType {
    /// Whether its values may be those of another type of a user, which has to be restored before.
    pub(crate) fn is_domain(&self) -> bool {
        self.domain.is_some()
    }
}

/// A stored type with the ids of this process. `ids`: by number in the catalog.
pub(crate) fn registered(ty: SqlType, ids: &BTreeMap<u32, EnumId>) -> SqlType {
    ty.with_enum(|id| ids.get(&id.of_stored()).copied().ok_or(())).unwrap_or(SqlType::Text)
}

/// A type as it is stored.
pub(crate) fn unregistered(ty: SqlType, catalog: &Catalog) -> SqlType {
    let stored = |id| {
        let is_it = |own: &&Arc<UserType>| own.domain().is_none() && own.ty() == SqlType::Enum(id);
        let found = catalog.types.values().find(is_it);
        Ok::<_, ()>(EnumId::stored(found.expect("a type of this catalog").id))
    };
    ty.with_enum(stored).expect("nothing fails")
}

impl Table {
    /// Changes the types of all columns and keys.
    pub(crate) fn change_types(&mut self, change: impl Fn(SqlType) -> SqlType) {
        for column in &mut self.columns {
            column.ty = change(column.ty);
        }
        let derived = self.indexes.iter_mut().filter_map(|index| index.derived.as_mut());
        for key in derived.flat_map(|derived| &mut derived.keys) {
            key.ty = change(key.ty);
        }
    }
}

impl View {
    /// Changes the types of all columns.
    pub(crate) fn change_types(&mut self, change: impl Fn(SqlType) -> SqlType) {
        for (_, ty) in &mut self.columns {
            *ty = change(*ty);
        }
    }
}

impl Catalog {
    /// The type with this number in the catalog.
    pub fn type_numbered(&self, id: u32) -> Option<&Arc<UserType>> {
        self.types.get(&id)
    }

    /// The type of this name; `None` if there is none.
    pub fn user_type(&self, name: &[String], search_path: &[String]) -> Option<&Arc<UserType>> {
        match self.resolve(name, search_path)?.relation {
            Relation::Type(found) => Some(found),
            _ => None,
        }
    }

    /// The type of this name, of a kind if one is asked for. Errors: 42704, 42809, 3F000.
    pub fn find_type(
        &self,
        name: &[String],
        search_path: &[String],
        kind: &str,
    ) -> Result<Arc<UserType>> {
        match self.resolve(name, search_path) {
            Some(Found { relation: Relation::Type(found), .. }) => match found.kind_name() {
                "type" if kind == "domain" => Err(crate::wrong_kind(&display_name(name), "domain")),
                _ => Ok(Arc::clone(found)),
            },
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("type \"{}\" does not exist", display_name(name)),
            )),
        }
    }

    /// The DEFAULT of a column, or else that of its domain, as SQL text.
    pub fn default_of<'a>(&'a self, column: &'a Column) -> Option<&'a str> {
        let of_domain = || self.type_numbered(column.domain?)?.domain()?.default.as_deref();
        column.default.as_deref().or_else(of_domain)
    }

    /// Puts a changed type in the place of the one that it was.
    pub fn put_type(&mut self, changed: UserType) {
        let (schema, name) = (changed.schema.clone(), changed.name.clone());
        self.put(&schema, &name, Relation::Type(Arc::new(changed)));
    }

    /// Registers what this catalog, which all sessions are to see, says of enumerations otherwise than the one
    /// `before`.
    pub fn publish_types(&self, before: &Catalog) {
        let old = |schema: &Schema| before.schemas.get(&schema.name);
        let is_same =
            |schema: &&Arc<Schema>| old(schema).is_some_and(|before| Arc::ptr_eq(before, schema));
        for schema in self.schemas.values().filter(|schema| !is_same(schema)) {
            let was = |own: &UserType| match old(schema)?.relations.get(&own.name)? {
                Relation::Type(was) => Some(was),
                _ => None,
            };
            let changed = |own: &&Arc<UserType>| !was(own).is_some_and(|was| Arc::ptr_eq(was, own));
            schema.types().filter(changed).for_each(|own| own.register(true));
        }
    }

    /// Registers what this catalog says of enumerations that no other transaction sees.
    pub fn register_own_types(&self) {
        self.types.values().for_each(|own| own.register(false));
    }
}

impl Schema {
    /// The types that users have defined in it.
    pub fn types(&self) -> impl Iterator<Item = &Arc<UserType>> {
        self.relations.values().filter_map(|relation| match relation {
            Relation::Type(own) => Some(own),
            _ => None,
        })
    }
}
