//! Whether a role may do something: by ownership, by grants, by membership in other roles.

use std::collections::BTreeSet;

use halcyon_sql::error::{Result, SqlError, SqlState};

use super::{Catalog, Found, Grant, PUBLIC, Privilege, Relation, Schema, Table};

impl Catalog {
    /// Whether `user` is `role` or a member of it, directly or through others; superusers are
    /// members of all.
    pub fn acts_for(&self, user: &str, role: &str) -> bool {
        if user == role || role == PUBLIC {
            return true;
        }
        let (mut seen, mut open) = (BTreeSet::new(), vec![user]);
        while let Some(name) = open.pop() {
            let Some(found) = self.roles.get(name) else { continue };
            if name == role || (name == user && found.superuser) {
                return true;
            }
            if seen.insert(name) {
                open.extend(found.member_of.iter().map(String::as_str));
            }
        }
        false
    }

    /// Whether `user` is a superuser.
    pub fn is_superuser(&self, user: &str) -> bool {
        self.roles.get(user).is_some_and(|role| role.superuser)
    }

    /// Whether grants (or ownership) let `user` do this.
    pub fn permits(&self, user: &str, owner: &str, grants: &[Grant], wish: Privilege) -> bool {
        self.acts_for(user, owner)
            || grants
                .iter()
                .any(|grant| grant.privilege == wish && self.acts_for(user, &grant.grantee))
    }

    /// 42501 unless `user` may do this to the relation, and use its schema.
    pub fn require_privilege(&self, user: &str, found: &Found<'_>, wish: Privilege) -> Result<()> {
        if self.is_superuser(user) {
            return Ok(());
        }
        self.require_schema(user, found.schema, Privilege::Usage)?;
        let relation = match found.relation {
            Relation::Index { table, .. } => Relation::Table(self.table(*table).clone()),
            other => other.clone(),
        };
        let (name, owner, grants) = relation.rights().expect("indexes were replaced by tables");
        match self.permits(user, owner, grants, wish) {
            true => Ok(()),
            false => Err(denied(relation.kind(), name)),
        }
    }

    /// 42501 unless `user` may do this to the table; its schema's USAGE is asked for too.
    pub fn require_on_table(&self, user: &str, table: &Table, wish: Privilege) -> Result<()> {
        if self.is_superuser(user) || table.owner == user {
            return Ok(());
        }
        self.require_schema(user, self.schema(&table.schema)?, Privilege::Usage)?;
        match self.permits(user, &table.owner, &table.grants, wish) {
            true => Ok(()),
            false => Err(denied(table.kind.name(), &table.name)),
        }
    }

    /// 42501 unless `user` may do this to the schema.
    pub fn require_schema(&self, user: &str, schema: &Schema, wish: Privilege) -> Result<()> {
        match self.permits(user, &schema.owner, &schema.grants, wish) {
            true => Ok(()),
            false => Err(denied("schema", &schema.name)),
        }
    }

    /// 42501 unless `user` owns it (or is a member of the owner).
    pub fn require_owner(&self, user: &str, owner: &str, kind: &str, name: &str) -> Result<()> {
        match self.acts_for(user, owner) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("must be owner of {kind} {name}"),
            )),
        }
    }
}

/// 42501.
pub fn denied(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}
