//! Extensions of PostgreSQL whose functions Halcyon has: they are always installed.

/// An extension.
#[derive(Clone, Copy, Debug)]
pub struct Extension {
    /// Object id of its row in `pg_extension`, among those that dumps leave out.
    pub oid: u32,
    /// Name of the extension.
    pub name: &'static str,
    /// The version whose functions there are.
    pub version: &'static str,
    /// What the extension is for, in PostgreSQL's words.
    pub comment: &'static str,
}

/// The extensions, by name.
pub const EXTENSIONS: &[Extension] = &[
    Extension { oid: 13_501, name: "pgcrypto", version: "1.3", comment: "cryptographic functions" },
    Extension {
        oid: 13_502,
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
    },
];

/// The extension of this name.
pub fn of_name(name: &str) -> Option<&'static Extension> {
    EXTENSIONS.iter().find(|extension| extension.name == name)
}
