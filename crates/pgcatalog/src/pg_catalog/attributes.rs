//! Columns of relations and their defaults.

use crate::objects::{self, What, each_table};
use crate::table::type_oid;
use crate::view::{Acl, Char, Name, Oid, Text, Texts, row, system_tables};
use crate::{Context, defaults, describe, user_types};
use halcyon_catalog::Column;
use halcyon_functions::system_columns::queries as system_columns;

system_tables! {
    pg_attribute: AttributeRow from attribute {
        attrelid: Oid,
        attname: Name,
        atttypid: Oid,
        attstattarget: i32,
        attlen: i16,
        attnum: i16,
        attndims: i32,
        attcacheoff: i32 = -1,
        atttypmod: i32,
        attbyval: bool,
        attalign: Char,
        attstorage: Char,
        attcompression: Char = Char(""),
        attnotnull: bool,
        atthasdef: bool,
        atthasmissing: bool = false,
        attidentity: Char,
        attgenerated: Char,
        attisdropped: bool = false,
        attislocal: bool = true,
        attinhcount: i32 = 0,
        attcollation: Oid,
        attacl: Option<Acl> = None,
        attoptions: Option<Texts> = None,
        attfdwoptions: Option<Texts> = None,
        attmissingval: Option<Text> = None,
    }

    pg_attrdef: DefaultRow from attrdef {
        oid: Oid,
        adrelid: Oid,
        adnum: i16,
        adbin: Text,
    }
}

/// Columns of a sequence read as a relation.
pub(super) const SEQUENCE_COLUMNS: &[(&str, u32)] =
    &[("last_value", 20), ("log_cnt", 20), ("is_called", 16)];

fn attribute(context: &Context, rows: &mut Vec<AttributeRow>) {
    for object in context.objects().relations.values() {
        if matches!(object.kind(), "r" | "m") {
            for (at, (name, ty)) in system_columns::ALL.iter().enumerate() {
                Attribute::of_system(object.oid, at, name, *ty).push(context, rows);
            }
        }
        match &object.what {
            What::Table(table) => {
                for (at, column) in table.columns.iter().enumerate() {
                    let collation = column.collation.as_ref();
                    let collation = collation.map(|own| context.catalog.collation_oid(own));
                    let attribute = Attribute::of_column(object.oid, at, column);
                    Attribute { collation, ..attribute }.push(context, rows);
                }
            }
            What::Index(table, index) => {
                for (at, key) in describe::index_columns(table, index).iter().enumerate() {
                    let modifier = key.ty.modifier();
                    let (name, ty) = (&key.name, key.ty.oid());
                    let collation = key.collation.map(|own| context.catalog.collation_oid(own));
                    let attribute = Attribute::new(object.oid, at, name, ty);
                    Attribute { modifier, collation, ..attribute }.push(context, rows);
                }
            }
            What::View(view) => {
                for (at, (name, ty)) in view.columns.iter().enumerate() {
                    let modifier = ty.modifier();
                    let default = view.defaults.contains_key(name);
                    let attribute = Attribute::new(object.oid, at, name, ty.oid());
                    Attribute { modifier, default, ..attribute }.push(context, rows);
                }
            }
            What::Sequence(_) => {
                for (at, (name, ty)) in SEQUENCE_COLUMNS.iter().enumerate() {
                    Attribute::new(object.oid, at, name, *ty).push(context, rows);
                }
            }
            What::System(system) => {
                for (at, field) in system.schema().fields().iter().enumerate() {
                    let ty = type_oid(field);
                    Attribute::new(object.oid, at, field.name(), ty).push(context, rows);
                }
            }
        }
    }
}

/// What differs between the rows of `pg_attribute`.
struct Attribute<'a> {
    relation: u32,
    number: i16,
    name: &'a str,
    ty: u32,
    modifier: i32,
    not_null: bool,
    default: bool,
    identity: &'static str,
    generated: &'static str,
    /// The collation's object id, if it is not that of the type.
    collation: Option<u32>,
}

impl<'a> Attribute<'a> {
    fn new(relation: u32, at: usize, name: &'a str, ty: u32) -> Self {
        let (number, modifier) = (at as i16 + 1, -1);
        Attribute {
            relation,
            number,
            name,
            ty,
            modifier,
            not_null: false,
            default: false,
            identity: "",
            generated: "",
            collation: None,
        }
    }

    fn of_system(relation: u32, at: usize, name: &'a str, ty: u32) -> Self {
        let number = -1 - at as i16;
        Attribute { number, not_null: true, ..Attribute::new(relation, at, name, ty) }
    }

    fn of_column(relation: u32, at: usize, column: &'a Column) -> Self {
        let ty = column.domain.unwrap_or_else(|| column.ty.oid());
        Attribute {
            modifier: if column.domain.is_some() { -1 } else { column.ty.modifier() },
            not_null: column.not_null,
            default: column.generated.is_some() || describe::default(column).is_some(),
            identity: describe::identity_letter(column),
            generated: describe::generated_letter(column),
            ..Attribute::new(relation, at, &column.name, ty)
        }
    }

    fn push(self, context: &Context, rows: &mut Vec<AttributeRow>) {
        let length = user_types::length(&context.catalog, self.ty);
        let array = user_types::is_array(&context.catalog, self.ty);
        let align = match length {
            1 => "c",
            2 | 6 => "s",
            8 => "d",
            _ => "i",
        };
        let storage = match (length, self.ty) {
            (-1, 1700) => "m",
            (-1, _) => "x",
            _ => "p",
        };
        let of_type = user_types::by_oid(&context.catalog, self.ty)
            .and_then(|found| found.own.domain())
            .map_or(self.ty, |domain| domain.base.oid());
        let collation = self.collation.unwrap_or(match of_type {
            25 | 1042 | 1043 | 1009 | 1014 | 1015 => 100,
            19 => 950,
            _ => 0,
        });
        row!(rows; AttributeRow {
            attrelid: self.relation,
            attname: self.name.to_owned(),
            atttypid: self.ty,
            attstattarget: if self.number > 0 { -1 } else { 0 },
            attlen: length,
            attnum: self.number,
            attndims: i32::from(array),
            atttypmod: self.modifier,
            attbyval: matches!(length, 1 | 2 | 4 | 8),
            attalign: align,
            attstorage: storage,
            attnotnull: self.not_null,
            atthasdef: self.default,
            attidentity: self.identity,
            attgenerated: self.generated,
            attcollation: collation,
        });
    }
}

fn attrdef(context: &Context, rows: &mut Vec<DefaultRow>) {
    for (object, table) in each_table(context) {
        for (at, column) in table.columns.iter().enumerate() {
            let default = || defaults::of_column(context, column);
            if let Some(text) = column.generated.clone().or_else(default) {
                let oid = objects::default_oid(table, &column.name);
                row!(rows; DefaultRow {
                    oid: oid,
                    adrelid: object.oid,
                    adnum: at + 1,
                    adbin: text,
                });
            }
        }
    }
    for object in context.objects().relations.values() {
        let What::View(view) = &object.what else { continue };
        for at in 0..view.columns.len() {
            if let Some(text) = defaults::of_view(context, view, at) {
                row!(rows; DefaultRow {
                    oid: objects::view_default_oid(view, &view.columns[at].0),
                    adrelid: object.oid,
                    adnum: at + 1,
                    adbin: text,
                });
            }
        }
    }
}
