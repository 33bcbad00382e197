//! Domains and their conditions.

use super::columns::TypeFacts;
use crate::view::{Name, Text, row, system_tables};
use crate::{Context, defaults, describe};
use halcyon_catalog::{Domain, UserType};

system_tables! {
    domains: DomainsRow from domains {
        domain_catalog: Name,
        domain_schema: Name,
        domain_name: Name,
        data_type: Text,
        character_maximum_length: Option<i32>,
        character_octet_length: Option<i32>,
        character_set_catalog: Option<Name> = None,
        character_set_schema: Option<Name> = None,
        character_set_name: Option<Name> = None,
        collation_catalog: Option<Name>,
        collation_schema: Option<Name>,
        collation_name: Option<Name>,
        numeric_precision: Option<i32>,
        numeric_precision_radix: Option<i32>,
        numeric_scale: Option<i32>,
        datetime_precision: Option<i32>,
        interval_type: Option<Text> = None,
        interval_precision: Option<i32> = None,
        domain_default: Option<Text>,
        udt_catalog: Name,
        udt_schema: Name,
        udt_name: Name,
        scope_catalog: Option<Name> = None,
        scope_schema: Option<Name> = None,
        scope_name: Option<Name> = None,
        maximum_cardinality: Option<i32> = None,
        dtd_identifier: Name = Name("1".to_owned()),
    }

    domain_constraints: DomainConstraintsRow from domain_constraints {
        constraint_catalog: Name,
        constraint_schema: Name,
        constraint_name: Name,
        domain_catalog: Name,
        domain_schema: Name,
        domain_name: Name,
        is_deferrable: Text = Text::from("NO"),
        initially_deferred: Text = Text::from("NO"),
    }
}

fn each_domain(context: &Context) -> impl Iterator<Item = (&UserType, &Domain)> {
    let types = context.catalog.types.values();
    types.filter_map(|own| Some((own.as_ref(), own.domain()?)))
}

fn domains(context: &Context, rows: &mut Vec<DomainsRow>) {
    let database = &context.session.database;
    for (own, domain) in each_domain(context) {
        let facts = TypeFacts::of(context, domain.base);
        let told = facts.told();
        row!(rows; DomainsRow {
            domain_catalog: database,
            domain_schema: &own.schema,
            domain_name: &own.name,
            data_type: facts.data_type,
            character_maximum_length: told.length,
            character_octet_length: told.octets,
            collation_catalog: domain.collation.as_ref().map(|_| database.clone()),
            collation_schema: domain.collation.as_ref().map(|own| own.schema.clone()),
            collation_name: domain.collation.as_ref().map(|own| own.name.clone()),
            numeric_precision: told.precision,
            numeric_precision_radix: told.radix,
            numeric_scale: told.scale,
            datetime_precision: told.time,
            domain_default: domain.default.as_ref().map(|text| {
                defaults::shown(context, domain.base, text)
            }),
            udt_catalog: database,
            udt_schema: facts.udt.0,
            udt_name: facts.udt.1,
        });
    }
}

fn domain_constraints(context: &Context, rows: &mut Vec<DomainConstraintsRow>) {
    let database = &context.session.database;
    for (own, domain) in each_domain(context) {
        for check in &domain.checks {
            row!(rows; DomainConstraintsRow {
                constraint_catalog: database,
                constraint_schema: &own.schema,
                constraint_name: &check.name,
                domain_catalog: database,
                domain_schema: &own.schema,
                domain_name: &own.name,
            });
        }
    }
}

/// Conditions of domains with their schemas and names, as `check_constraints` tells them.
pub(super) fn clauses(context: &Context) -> impl Iterator<Item = (&str, &str, String)> {
    each_domain(context).flat_map(|(own, domain)| {
        domain.checks.iter().map(|check| {
            let clause = format!("(({}))", describe::value_in_capitals(&check.expr));
            (own.schema.as_str(), check.name.as_str(), clause)
        })
    })
}
