//! Roles, privileges and grants.

use serde::{Deserialize, Serialize};

/// A role: user or group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Role {
    /// Object id.
    pub oid: u32,
    /// Name.
    pub name: String,
    /// May log in.
    pub login: bool,
    /// May do everything.
    pub superuser: bool,
    /// May create roles.
    pub create_role: bool,
    /// May create databases; kept for clients that ask.
    pub create_db: bool,
    /// SCRAM-SHA-256 verifier in PostgreSQL's notation; no plain password is kept.
    pub verifier: Option<String>,
    /// Roles it is a member of.
    pub member_of: Vec<String>,
    /// COMMENT ON ROLE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What others may do with objects that it will make: ALTER DEFAULT PRIVILEGES.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<DefaultRights>,
}

/// Rights on the objects of a kind that a role will make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRights {
    /// Object id.
    pub oid: u32,
    /// The schema in which the objects are made; `None`: any.
    pub schema: Option<String>,
    /// The kind of objects.
    pub on: DefaultsOn,
    /// The rights, beside those of the owner.
    pub grants: Vec<Grant>,
}

/// What default rights are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum DefaultsOn {
    /// Tables and views of all kinds.
    Tables,
    Sequences,
    Schemas,
}

impl DefaultsOn {
    /// As statements name them.
    pub fn name(self) -> &'static str {
        match self {
            DefaultsOn::Tables => "TABLES",
            DefaultsOn::Sequences => "SEQUENCES",
            DefaultsOn::Schemas => "SCHEMAS",
        }
    }
}

/// A privilege given to a role (`public` means everybody).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who may.
    pub grantee: String,
    /// Who gave it.
    pub grantor: String,
    /// What.
    pub privilege: Privilege,
    /// May be passed on.
    pub grantable: bool,
}

/// What may be granted on a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Privilege {
    Select,
    Insert,
    Update,
    Delete,
    Truncate,
    References,
    Usage,
    Create,
}

impl Privilege {
    /// SQL's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Insert => "INSERT",
            Privilege::Update => "UPDATE",
            Privilege::Delete => "DELETE",
            Privilege::Truncate => "TRUNCATE",
            Privilege::References => "REFERENCES",
            Privilege::Usage => "USAGE",
            Privilege::Create => "CREATE",
        }
    }
}
