//! Extensions, all of which are always installed.

use crate::Context;
use crate::objects;
use crate::view::{Name, Oid, OidArray, Text, Texts, row, system_tables};
use halcyon_catalog::SUPERUSER;
use halcyon_catalog::extensions::EXTENSIONS;

system_tables! {
    pg_extension: ExtensionRow from installed {
        oid: Oid,
        extname: Name,
        extowner: Oid,
        extnamespace: Oid,
        extrelocatable: bool,
        extversion: Text,
        extconfig: Option<OidArray>,
        extcondition: Option<Texts>,
    }

    pg_available_extensions: AvailableRow from available {
        name: Name,
        default_version: Text,
        installed_version: Text,
        comment: Text,
    }

    pg_available_extension_versions: VersionRow from versions {
        name: Name,
        version: Text,
        installed: bool,
        superuser: bool,
        trusted: bool,
        relocatable: bool,
        schema: Option<Name>,
        requires: Option<Texts>,
        comment: Text,
    }
}

fn installed(context: &Context, rows: &mut Vec<ExtensionRow>) {
    for extension in EXTENSIONS {
        row!(rows; ExtensionRow {
            oid: extension.oid,
            extname: extension.name.to_owned(),
            extowner: objects::role_oid(&context.catalog, SUPERUSER),
            extnamespace: objects::namespace(&context.catalog, "pg_catalog"),
            extrelocatable: false,
            extversion: extension.version,
            extconfig: None::<Vec<i64>>,
            extcondition: None::<Vec<String>>,
        });
    }
}

fn available(_: &Context, rows: &mut Vec<AvailableRow>) {
    for extension in EXTENSIONS {
        row!(rows; AvailableRow {
            name: extension.name.to_owned(),
            default_version: extension.version,
            installed_version: extension.version,
            comment: extension.comment,
        });
    }
}

fn versions(_: &Context, rows: &mut Vec<VersionRow>) {
    for extension in EXTENSIONS {
        row!(rows; VersionRow {
            name: extension.name.to_owned(),
            version: extension.version,
            installed: true,
            superuser: true,
            trusted: true,
            relocatable: false,
            schema: None::<String>,
            requires: None::<Vec<String>>,
            comment: extension.comment,
        });
    }
}
