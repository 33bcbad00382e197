//! Columns of the tables of `information_schema` that have rows, as PostgreSQL 15 has them.

use crate::table::Kind::{self, *};

pub(super) const TABLE_COLUMNS: &[(&str, Kind)] = &[
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name), ("table_type", Text),
    ("self_referencing_column_name", Name), ("reference_generation", Text),
    ("user_defined_type_catalog", Name), ("user_defined_type_schema", Name),
    ("user_defined_type_name", Name), ("is_insertable_into", Text), ("is_typed", Text),
    ("commit_action", Text),
];

pub(super) const COLUMNS: &[(&str, Kind)] = &[
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("column_name", Name), ("ordinal_position", Int4), ("column_default", Text),
    ("is_nullable", Text), ("data_type", Text), ("character_maximum_length", Int4),
    ("character_octet_length", Int4), ("numeric_precision", Int4),
    ("numeric_precision_radix", Int4), ("numeric_scale", Int4), ("datetime_precision", Int4),
    ("interval_type", Text), ("interval_precision", Int4), ("character_set_catalog", Name),
    ("character_set_schema", Name), ("character_set_name", Name), ("collation_catalog", Name),
    ("collation_schema", Name), ("collation_name", Name), ("domain_catalog", Name),
    ("domain_schema", Name), ("domain_name", Name), ("udt_catalog", Name), ("udt_schema", Name),
    ("udt_name", Name), ("scope_catalog", Name), ("scope_schema", Name), ("scope_name", Name),
    ("maximum_cardinality", Int4), ("dtd_identifier", Name), ("is_self_referencing", Text),
    ("is_identity", Text), ("identity_generation", Text), ("identity_start", Text),
    ("identity_increment", Text), ("identity_maximum", Text), ("identity_minimum", Text),
    ("identity_cycle", Text), ("is_generated", Text), ("generation_expression", Text),
    ("is_updatable", Text),
];

pub(super) const SCHEMATA: &[(&str, Kind)] = &[
    ("catalog_name", Name), ("schema_name", Name), ("schema_owner", Name),
    ("default_character_set_catalog", Name), ("default_character_set_schema", Name),
    ("default_character_set_name", Name), ("sql_path", Text),
];

pub(super) const VIEWS: &[(&str, Kind)] = &[
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("view_definition", Text), ("check_option", Text), ("is_updatable", Text),
    ("is_insertable_into", Text), ("is_trigger_updatable", Text),
    ("is_trigger_deletable", Text), ("is_trigger_insertable_into", Text),
];

pub(super) const SEQUENCES: &[(&str, Kind)] = &[
    ("sequence_catalog", Name), ("sequence_schema", Name), ("sequence_name", Name),
    ("data_type", Text), ("numeric_precision", Int4), ("numeric_precision_radix", Int4),
    ("numeric_scale", Int4), ("start_value", Text), ("minimum_value", Text),
    ("maximum_value", Text), ("increment", Text), ("cycle_option", Text),
];

pub(super) const TABLE_CONSTRAINTS: &[(&str, Kind)] = &[
    ("constraint_catalog", Name), ("constraint_schema", Name), ("constraint_name", Name),
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("constraint_type", Text), ("is_deferrable", Text), ("initially_deferred", Text),
    ("enforced", Text), ("nulls_distinct", Text),
];

pub(super) const KEY_COLUMN_USAGE: &[(&str, Kind)] = &[
    ("constraint_catalog", Name), ("constraint_schema", Name), ("constraint_name", Name),
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("column_name", Name), ("ordinal_position", Int4), ("position_in_unique_constraint", Int4),
];

pub(super) const REFERENTIAL_CONSTRAINTS: &[(&str, Kind)] = &[
    ("constraint_catalog", Name), ("constraint_schema", Name), ("constraint_name", Name),
    ("unique_constraint_catalog", Name), ("unique_constraint_schema", Name),
    ("unique_constraint_name", Name), ("match_option", Text), ("update_rule", Text),
    ("delete_rule", Text),
];

pub(super) const CONSTRAINT_COLUMN_USAGE: &[(&str, Kind)] = &[
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("column_name", Name), ("constraint_catalog", Name), ("constraint_schema", Name),
    ("constraint_name", Name),
];

pub(super) const CHECK_CONSTRAINTS: &[(&str, Kind)] = &[
    ("constraint_catalog", Name), ("constraint_schema", Name), ("constraint_name", Name),
    ("check_clause", Text),
];

pub(super) const TABLE_PRIVILEGES: &[(&str, Kind)] = &[
    ("grantor", Name), ("grantee", Name), ("table_catalog", Name), ("table_schema", Name),
    ("table_name", Name), ("privilege_type", Text), ("is_grantable", Text),
    ("with_hierarchy", Text),
];

pub(super) const ROLE_TABLE_GRANTS: &[(&str, Kind)] = &[
    ("grantor", Name), ("grantee", Name), ("table_catalog", Name), ("table_schema", Name),
    ("table_name", Name), ("privilege_type", Text), ("is_grantable", Text),
    ("with_hierarchy", Text),
];

pub(super) const COLUMN_PRIVILEGES: &[(&str, Kind)] = &[
    ("grantor", Name), ("grantee", Name), ("table_catalog", Name), ("table_schema", Name),
    ("table_name", Name), ("column_name", Name), ("privilege_type", Text),
    ("is_grantable", Text),
];

pub(super) const APPLICABLE_ROLES: &[(&str, Kind)] = &[
    ("grantee", Name), ("role_name", Name), ("is_grantable", Text),
];

pub(super) const ENABLED_ROLES: &[(&str, Kind)] = &[
    ("role_name", Name),
];

pub(super) const INFORMATION_SCHEMA_CATALOG_NAME: &[(&str, Kind)] = &[
    ("catalog_name", Name),
];

pub(super) const CONSTRAINT_TABLE_USAGE: &[(&str, Kind)] = &[
    ("table_catalog", Name), ("table_schema", Name), ("table_name", Name),
    ("constraint_catalog", Name), ("constraint_schema", Name), ("constraint_name", Name),
];

pub(super) const CHARACTER_SETS: &[(&str, Kind)] = &[
    ("character_set_catalog", Name), ("character_set_schema", Name),
    ("character_set_name", Name), ("character_repertoire", Name), ("form_of_use", Name),
    ("default_collate_catalog", Name), ("default_collate_schema", Name),
    ("default_collate_name", Name),
];

pub(super) const USAGE_PRIVILEGES: &[(&str, Kind)] = &[
    ("grantor", Name), ("grantee", Name), ("object_catalog", Name), ("object_schema", Name),
    ("object_name", Name), ("object_type", Text), ("privilege_type", Text),
    ("is_grantable", Text),
];
