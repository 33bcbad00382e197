//! ALTER DEFAULT PRIVILEGES, REASSIGN OWNED and DROP OWNED: what is said of all objects of a role.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Grant, Ident, Revoke};
use datafusion::sql::sqlparser::parser::Parser;

use super::moves::maybe;
use super::reader::Reader;
use super::with_commas;
use crate::error::Result;

/// A statement about all objects that roles own, or will.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedStatement {
    /// ALTER DEFAULT PRIVILEGES.
    Default {
        /// FOR ROLE: who makes the objects; none: the role that asks.
        roles: Vec<Ident>,
        /// IN SCHEMA: where they are made; none: anywhere.
        schemas: Vec<Ident>,
        /// What they get or lose. The objects are one table by the name of TABLES, SEQUENCES, ….
        change: RightsChange,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// The owners.
        from: Vec<Ident>,
        /// Who owns their objects from now on.
        to: Ident,
    },
    /// DROP OWNED.
    Drop {
        /// The owners.
        of: Vec<Ident>,
        /// With all that depends on their objects.
        cascade: bool,
    },
}

/// GRANT or REVOKE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum RightsChange {
    Grant(Box<Grant>),
    Revoke(Box<Revoke>),
}

/// Behind ALTER DEFAULT PRIVILEGES.
pub(super) fn default_privileges(reader: &mut Reader<'_>) -> Result<OwnedStatement> {
    let (mut roles, mut schemas) = (Vec::new(), Vec::new());
    loop {
        if roles.is_empty() && reader.eats("FOR") {
            reader.expect_one_of(&["ROLE", "USER"])?;
            roles = reader.idents()?;
        } else if schemas.is_empty() && reader.eats("IN SCHEMA") {
            schemas = reader.idents()?;
        } else {
            break;
        }
    }
    let change = match reader.expect_one_of(&["GRANT", "REVOKE"])? {
        "GRANT" => RightsChange::Grant(Box::new(reader.sql(Parser::parse_grant)?)),
        _ => RightsChange::Revoke(Box::new(reader.sql(Parser::parse_revoke)?)),
    };
    Ok(OwnedStatement::Default { roles, schemas, change })
}

/// Behind REASSIGN OWNED.
pub(super) fn reassign(reader: &mut Reader<'_>) -> Result<OwnedStatement> {
    reader.expect("BY")?;
    let from = reader.idents()?;
    reader.expect("TO")?;
    Ok(OwnedStatement::Reassign { from, to: reader.ident()? })
}

/// Behind DROP OWNED.
pub(super) fn drop(reader: &mut Reader<'_>) -> Result<OwnedStatement> {
    reader.expect("BY")?;
    let of = reader.idents()?;
    let cascade = reader.eats("CASCADE");
    let _ = !cascade && reader.eats("RESTRICT");
    Ok(OwnedStatement::Drop { of, cascade })
}

impl OwnedStatement {
    /// The command tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            OwnedStatement::Default { .. } => "ALTER DEFAULT PRIVILEGES",
            OwnedStatement::Reassign { .. } => "REASSIGN OWNED",
            OwnedStatement::Drop { .. } => "DROP OWNED",
        }
    }
}

impl fmt::Display for OwnedStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tag = self.tag();
        match self {
            OwnedStatement::Default { roles, schemas, change } => {
                f.write_str(tag)?;
                for (words, names) in [("FOR ROLE", roles), ("IN SCHEMA", schemas)] {
                    if !names.is_empty() {
                        write!(f, " {words} {}", with_commas(names))?;
                    }
                }
                match change {
                    RightsChange::Grant(grant) => write!(f, " {grant}"),
                    // The SQL parser's ends with a blank where nothing follows.
                    RightsChange::Revoke(revoke) => write!(f, " {}", revoke.to_string().trim_end()),
                }
            }
            OwnedStatement::Reassign { from, to } => {
                write!(f, "{tag} BY {} TO {to}", with_commas(from))
            }
            OwnedStatement::Drop { of, cascade } => {
                write!(f, "{tag} BY {}{}", with_commas(of), maybe(*cascade, " CASCADE"))
            }
        }
    }
}
