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
