//! Labels of enumerations.

use crate::Context;
use crate::view::{Name, Oid, row, system_tables};
use halcyon_catalog::TypeKind;

system_tables! {
    pg_enum: EnumRow from labels {
        oid: Oid,
        enumtypid: Oid,
        enumsortorder: f32,
        enumlabel: Name,
    }
}

fn labels(context: &Context, rows: &mut Vec<EnumRow>) {
    for own in context.catalog.types.values() {
        let TypeKind::Enum { labels, .. } = &own.kind else { continue };
        for (at, label) in labels.iter().enumerate() {
            row!(rows; EnumRow {
                oid: crate::objects::label_oid(own, &label.text),
                enumtypid: own.oid(),
                enumsortorder: (at + 1) as f64,
                enumlabel: &label.text,
            });
        }
    }
}
