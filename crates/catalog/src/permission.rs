//! Whether a role may do something: by ownership, by grants, by membership in other roles.

use std::collections::BTreeSet;

use halcyon_sql::error::{Result, SqlError, SqlState};

use super::{
    Catalog, DefaultsOn, Found, Grant, PUBLIC, Privilege, Relation, Role, Schema, Sequence, Table,
    temporary,
};

impl Catalog {
    /// Errors: 22023 for a role that there is not, 42501 for one that `user` is no member of.
    pub fn may_become(&self, user: &str, role: &str) -> Result<()> {
        if !self.roles.contains_key(role) {
            let message = format!("role \"{role}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if !self.acts_for(user, role) {
            let message = format!("permission denied to set role \"{role}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(())
    }

    /// Whether `user` is `role` or a member of it, directly or through others; superusers are
    /// members of all.
    pub fn acts_for(&self, user: &str, role: &str) -> bool {
        user == role || role == PUBLIC || self.is_superuser(user) || self.is_member(user, role)
    }

    /// Whether `user` is `role` or a member of it, directly or through others; being a superuser
    /// does not count.
    pub fn is_member(&self, user: &str, role: &str) -> bool {
        self.any_of_roles(user, |found| found.name == role)
    }

    /// Whether `user` is a superuser or can become one by SET ROLE, as a member of one.
    pub fn reaches_superuser(&self, user: &str) -> bool {
        self.any_of_roles(user, |found| found.superuser)
    }

    /// Whether `is_it` holds for `user` or for a role of which it is a member, directly or through
    /// others.
    fn any_of_roles(&self, user: &str, is_it: impl Fn(&Role) -> bool) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![user]);
        while let Some(name) = open.pop() {
            let Some(found) = self.roles.get(name) else { continue };
            if is_it(found) {
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

    /// What others may do from the beginning with an object that `owner` makes in a schema.
    pub fn default_rights(&self, owner: &str, schema: Option<&str>, on: DefaultsOn) -> Vec<Grant> {
        let Some(role) = self.roles.get(owner) else { return Vec::new() };
        let mut found: Vec<Grant> = Vec::new();
        for known in role.defaults.iter().filter(|known| known.on == on) {
            if known.schema.as_deref().is_none_or(|own| schema == Some(own)) {
                for grant in &known.grants {
                    let is_same = |other: &&mut Grant| {
                        other.grantee == grant.grantee && other.privilege == grant.privilege
                    };
                    match found.iter_mut().find(is_same) {
                        Some(other) => other.grantable |= grant.grantable,
                        None => found.push(grant.clone()),
                    }
                }
            }
        }
        found
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
            Relation::Type(_) => return Ok(()),
            Relation::Index { table, .. } => Relation::Table(self.table(*table).clone()),
            other => other.clone(),
        };
        let (name, owner, grants) = relation.rights().expect("types and indexes are not left");
        match self.permits(user, owner, grants, wish) {
            true => Ok(()),
            false => Err(denied(relation.kind(), name)),
        }
    }

    /// 42501 unless `user` may do this to the table; its schema's USAGE is asked for too.
    pub fn require_on_table(&self, user: &str, table: &Table, wish: Privilege) -> Result<()> {
        self.require_any_on_table(user, table, &[wish])
    }

    /// 42501 unless `user` may do one of these to the table; its schema's USAGE is asked for too.
    pub fn require_any_on_table(
        &self,
        user: &str,
        table: &Table,
        wishes: &[Privilege],
    ) -> Result<()> {
        if self.is_superuser(user) || table.owner == user {
            return Ok(());
        }
        self.require_schema(user, self.schema(&table.schema)?, Privilege::Usage)?;
        match wishes.iter().any(|wish| self.permits(user, &table.owner, &table.grants, *wish)) {
            true => Ok(()),
            false => Err(denied(table.kind.name(), &table.name)),
        }
    }

    /// 42501 unless `user` may do one of these to the sequence; its schema's USAGE is asked for too.
    pub fn require_any_on_sequence(
        &self,
        user: &str,
        sequence: &Sequence,
        wishes: &[Privilege],
    ) -> Result<()> {
        if self.is_superuser(user) || sequence.owner == user {
            return Ok(());
        }
        self.require_schema(user, self.schema(&sequence.schema)?, Privilege::Usage)?;
        let may = |wish: &Privilege| self.permits(user, &sequence.owner, &sequence.grants, *wish);
        match wishes.iter().any(may) {
            true => Ok(()),
            false => Err(denied("sequence", &sequence.name)),
        }
    }

    /// 42501 unless `user` may do this to the schema.
    pub fn require_schema(&self, user: &str, schema: &Schema, wish: Privilege) -> Result<()> {
        // A temporary schema is in the catalog of its session alone.
        let own = temporary::is_temporary(&schema.name);
        match own || self.permits(user, &schema.owner, &schema.grants, wish) {
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
