//! Workload classes and mappings, who may use which class, and plans that outlive their changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use halcyon_workload::Definitions;
use serde::{Deserialize, Serialize};

use crate::temporary::is_temporary;
use crate::{Catalog, Grant};

/// What the catalog stores of workload management.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredWorkload {
    definitions: Definitions,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    grants: BTreeMap<String, Vec<Grant>>,
}

impl StoredWorkload {
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let definitions = Definitions::clone(&catalog.workload);
        StoredWorkload { definitions, grants: catalog.workload_grants.clone() }
    }

    /// What is to be stored to turn `before` into `after`; `None` if both have the same.
    pub(crate) fn of_change(before: &Catalog, after: &Catalog) -> Option<Self> {
        (!after.has_workload_of(before)).then(|| StoredWorkload::of(after))
    }

    /// Nothing needs to be stored of a database without definitions and grants.
    pub(crate) fn is_empty(&self) -> bool {
        *self == StoredWorkload::default()
    }

    pub(crate) fn restore(self, catalog: &mut Catalog) {
        catalog.workload = Arc::new(self.definitions);
        catalog.workload_grants = self.grants;
    }
}

impl Catalog {
    /// Whether `role` may use a workload class that it is not mapped to: as a superuser, or by GRANT USAGE ON
    /// WORKLOAD CLASS to the role, to one that it is a member of, or to everybody.
    pub fn may_use_workload_class(&self, role: &str, class: &str) -> bool {
        let mut grants = self.workload_grants.get(class).into_iter().flatten();
        self.is_superuser(role) || grants.any(|grant| self.acts_for(role, &grant.grantee))
    }

    /// Whether definitions and grants are those of `other`.
    pub fn has_workload_of(&self, other: &Catalog) -> bool {
        let same = Arc::ptr_eq(&self.workload, &other.workload) || self.workload == other.workload;
        same && self.workload_grants == other.workload_grants
    }

    /// The version by which plans know the catalog: that of the last change which concerns plans.
    #[inline]
    pub fn plan_version(&self) -> u64 {
        match self.plans_of {
            Some((plans, version)) if version == self.version => plans,
            _ => self.version,
        }
    }

    /// Says that plans made for `before` hold for this version of the catalog, too. A later version must say so
    /// again. Nothing is said if `before` has temporary objects: plans for these are one session's.
    pub fn keep_plans_of(&mut self, before: &Catalog) {
        if !before.schemas.keys().any(|name| is_temporary(name)) {
            self.plans_of = Some((before.plan_version(), self.version));
        }
    }

    /// Panics unless all rights are rights to classes that exist.
    pub(crate) fn check_workload(&self) {
        self.workload.check().expect("the definitions were accepted");
        let classes = self.workload_grants.keys();
        classes.for_each(|class| assert!(self.workload.has_class(class), "no class {class}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PUBLIC, Privilege, Role, SUPERUSER};

    fn grant(catalog: &mut Catalog, class: &str, grantee: &str) {
        let grant = Grant {
            grantee: grantee.to_owned(),
            grantor: SUPERUSER.to_owned(),
            privilege: Privilege::Usage,
            grantable: false,
        };
        catalog.workload_grants.entry(class.to_owned()).or_default().push(grant);
    }

    #[test]
    fn classes_are_used_by_those_who_were_granted_it() {
        let mut catalog = Catalog::initial();
        let definitions = Arc::make_mut(&mut catalog.workload);
        definitions.create_class("web", None, &[]).expect("a class");
        definitions.create_class("all", None, &[]).expect("a class");
        let mut role = Role { superuser: false, ..(*catalog.roles[SUPERUSER]).clone() };
        role.name = "shop".into();
        catalog.roles.insert("shop".into(), Arc::new(role.clone()));
        (role.name, role.member_of) = ("ann".into(), vec!["shop".into()]);
        catalog.roles.insert("ann".into(), Arc::new(role));
        grant(&mut catalog, "web", "shop");
        grant(&mut catalog, "all", PUBLIC);
        let may = |role, class| catalog.may_use_workload_class(role, class);
        assert!(may("shop", "web") && may("ann", "web") && may(SUPERUSER, "none"));
        assert!(!may("bob", "web") && may("bob", "all") && !may("ann", "none"));
        catalog.check();
    }

    #[test]
    fn plans_are_kept_by_the_version_that_says_so_alone() {
        let first = Catalog::initial();
        let mut second = Catalog { version: first.version + 1, ..first.clone() };
        assert_eq!(second.plan_version(), second.version);
        second.keep_plans_of(&first);
        assert_eq!(second.plan_version(), first.version);
        let mut third = Catalog { version: second.version + 1, ..second.clone() };
        assert_eq!(third.plan_version(), third.version);
        third.keep_plans_of(&second);
        assert_eq!(third.plan_version(), first.version);
    }
}
