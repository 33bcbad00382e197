//! Definitions of ours, and PostgreSQL's that the SQL parser has no tree for.

use std::fmt;

use datafusion::sql::sqlparser::ast::{
    self, AlterRoleOperation, CreateTable, Expr, Ident, ObjectName, Password, Query, RoleOption,
    UnaryOperator,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::alter_view::{self, ViewChange};
use super::collation::CollationStatement;
use super::comment::CommentOn;
use super::identity::AlterIdentities;
use super::materialized::CreateMaterializedView;
use super::moves::{MoveTo, maybe, move_to, move_with_columns};
use super::owned::OwnedStatement;
use super::reader::Reader;
use super::sequence_options::{SequenceOptions, sequence_option};
use super::types::TypeStatement;
use super::with_commas;
use super::workload::WorkloadStatement;
use crate::error::{Result, SqlError};

/// A definition that the SQL parser has no tree for.
#[derive(Clone, Debug, PartialEq)]
pub enum DdlStatement {
    /// CREATE STREAM, whose syntax behind these words is that of CREATE TABLE.
    CreateStream(Box<CreateTable>),
    /// CREATE ASSERTION name CHECK (NOT EXISTS (query)).
    CreateAssertion {
        /// Its name.
        name: ObjectName,
        /// What must have no row.
        query: Box<Query>,
    },
    /// DROP ASSERTION.
    DropAssertion {
        /// Its name.
        name: ObjectName,
        /// It need not exist.
        if_exists: bool,
    },
    /// CREATE ROLE, CREATE USER, CREATE GROUP.
    CreateRole(CreateRole),
    /// ALTER ROLE, ALTER USER.
    AlterRole {
        /// Its name.
        name: Ident,
        /// What is to change.
        operation: Box<AlterRoleOperation>,
    },
    /// GRANT or REVOKE of role membership.
    Membership {
        /// Roles given or taken.
        roles: Vec<Ident>,
        /// Who gets or loses them.
        members: Vec<Ident>,
        /// GRANT, else REVOKE.
        grant: bool,
    },
    /// CREATE SCHEMA with definitions of what is to be in the schema.
    CreateSchema {
        /// CREATE SCHEMA itself.
        create: Box<ast::Statement>,
        /// The definitions' text.
        elements: String,
    },
    /// CREATE SEQUENCE, with its options in any order.
    CreateSequence {
        /// The sequence.
        name: ObjectName,
        /// It may exist.
        if_not_exists: bool,
        /// What the sequence is like.
        options: SequenceOptions,
    },
    /// ALTER TABLE that adds, drops or changes an identity.
    AlterIdentities(AlterIdentities),
    /// ALTER SEQUENCE with options.
    AlterSequence {
        /// The sequence.
        name: ObjectName,
        /// It need not exist.
        if_exists: bool,
        /// What is to change.
        options: SequenceOptions,
    },
    /// CREATE MATERIALIZED VIEW.
    CreateMaterializedView(CreateMaterializedView),
    /// COMMENT ON.
    Comment(CommentOn),
    /// About an enumeration or a domain.
    Type(Box<TypeStatement>),
    /// About a collation.
    Collation(Box<CollationStatement>),
    /// About all objects of roles.
    Owned(Box<OwnedStatement>),
    /// About workload classes or mappings.
    Workload(Box<WorkloadStatement>),
    /// ALTER VIEW with options or a default.
    AlterView {
        /// The view.
        name: ObjectName,
        /// It need not exist.
        if_exists: bool,
        /// What is to change.
        change: ViewChange,
    },
    /// RENAME TO, OWNER TO, SET SCHEMA of any kind of relation.
    Move {
        /// What the statement says the relation is.
        kind: RelationKind,
        /// The relation.
        name: ObjectName,
        /// It need not exist.
        if_exists: bool,
        /// What is to change.
        to: MoveTo,
    },
}

/// CREATE ROLE, CREATE USER, CREATE GROUP.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    /// The word behind CREATE.
    pub kind: RoleKind,
    /// Names of the roles.
    pub names: Vec<ObjectName>,
    /// They may exist.
    pub if_not_exists: bool,
    /// LOGIN, PASSWORD and the like, none of them twice.
    pub options: Vec<RoleOption>,
    /// IN ROLE, IN GROUP: roles that the new one becomes a member of.
    pub member_of: Vec<Ident>,
    /// ROLE, USER, ADMIN: roles that become members of the new one.
    pub members: Vec<Ident>,
}

/// The word behind CREATE, for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// ROLE.
    Role,
    /// USER: may log in unless the options say otherwise.
    User,
    /// GROUP.
    Group,
}

/// What a statement says a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// TABLE, which stands for every kind.
    Table,
    /// VIEW.
    View,
    /// MATERIALIZED VIEW.
    MaterializedView,
    /// SEQUENCE.
    Sequence,
    /// INDEX.
    Index,
}

impl DdlStatement {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            DdlStatement::CreateStream(_) => "CREATE STREAM",
            DdlStatement::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            DdlStatement::CreateAssertion { .. } => "CREATE ASSERTION",
            DdlStatement::DropAssertion { .. } => "DROP ASSERTION",
            DdlStatement::CreateRole(_) => "CREATE ROLE",
            DdlStatement::AlterRole { .. } => "ALTER ROLE",
            DdlStatement::Membership { grant: true, .. } => "GRANT ROLE",
            DdlStatement::Membership { .. } => "REVOKE ROLE",
            DdlStatement::CreateSchema { .. } => "CREATE SCHEMA",
            DdlStatement::CreateSequence { .. } => "CREATE SEQUENCE",
            DdlStatement::AlterIdentities(_) => "ALTER TABLE",
            DdlStatement::AlterSequence { .. } => "ALTER SEQUENCE",
            DdlStatement::Comment(_) => "COMMENT",
            DdlStatement::Type(statement) => statement.tag(),
            DdlStatement::Collation(statement) => statement.tag(),
            DdlStatement::Owned(statement) => statement.tag(),
            DdlStatement::Workload(statement) => statement.tag(),
            DdlStatement::AlterView { .. } => "ALTER VIEW",
            DdlStatement::Move { kind, .. } => match kind {
                RelationKind::Table => "ALTER TABLE",
                RelationKind::View => "ALTER VIEW",
                RelationKind::MaterializedView => "ALTER MATERIALIZED VIEW",
                RelationKind::Sequence => "ALTER SEQUENCE",
                RelationKind::Index => "ALTER INDEX",
            },
        }
    }
}

impl RelationKind {
    /// As errors name it.
    pub fn name(self) -> &'static str {
        match self {
            RelationKind::Table => "table",
            RelationKind::View => "view",
            RelationKind::MaterializedView => "materialized view",
            RelationKind::Sequence => "sequence",
            RelationKind::Index => "index",
        }
    }
}

// ---------------------------------------------------------------- streams and assertions

/// Behind CREATE STREAM.
pub(super) fn create_stream(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let create =
        reader.sql_with_joins(|parser| parser.parse_create_table(false, false, None, false))?;
    Ok(DdlStatement::CreateStream(Box::new(create)))
}

/// Behind CREATE ASSERTION.
pub(super) fn create_assertion(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let name = reader.name()?;
    reader.expect("CHECK")?;
    reader.expect_token(&Token::LParen)?;
    let refused = reader.unexpected("NOT EXISTS (query)");
    let condition = reader.sql_with_joins(|parser| parser.parse_expr())?;
    reader.expect_token(&Token::RParen)?;
    match not_exists(condition) {
        Some(query) => Ok(DdlStatement::CreateAssertion { name, query }),
        None => Err(refused),
    }
}

fn not_exists(condition: Expr) -> Option<Box<Query>> {
    match condition {
        Expr::Exists { subquery, negated: true } => Some(subquery),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => match *expr {
            Expr::Exists { subquery, negated: false } => Some(subquery),
            _ => None,
        },
        _ => None,
    }
}

/// Behind DROP ASSERTION.
pub(super) fn drop_assertion(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let if_exists = reader.if_exists();
    Ok(DdlStatement::DropAssertion { name: reader.name()?, if_exists })
}

// ---------------------------------------------------------------- roles

/// Behind CREATE.
pub(super) fn create_role(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let kind = match reader.expect_one_of(&["ROLE", "USER", "GROUP"])? {
        "ROLE" => RoleKind::Role,
        "USER" => RoleKind::User,
        _ => RoleKind::Group,
    };
    let if_not_exists = reader.eats("IF NOT EXISTS");
    let mut names = vec![reader.name()?];
    while reader.eats_token(&Token::Comma) {
        names.push(reader.name()?);
    }
    let mut role = CreateRole {
        kind,
        names,
        if_not_exists,
        options: Vec::new(),
        member_of: Vec::new(),
        members: Vec::new(),
    };
    reader.eats("WITH");
    while !reader.is_at_end() {
        if reader.eats("IN ROLE") || reader.eats("IN GROUP") {
            role.member_of.extend(reader.idents()?);
        } else if ["ROLE", "USER", "ADMIN"].iter().any(|word| reader.eats(word)) {
            role.members.extend(reader.idents()?);
        } else {
            role_option(reader, &mut role.options)?;
        }
    }
    Ok(DdlStatement::CreateRole(role))
}

/// Behind ALTER.
pub(super) fn alter_role(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    reader.expect_one_of(&["ROLE", "USER"])?;
    // Of a role's settings the SQL parser knows the syntax.
    let other = reader.ahead().nth(1).is_some_and(|token| {
        ["RENAME", "SET", "RESET", "IN"].iter().any(|word| super::reader::is_word(token, word))
    });
    if other {
        return match reader.sql(Parser::parse_alter_role)? {
            ast::Statement::AlterRole { name, operation } => {
                Ok(DdlStatement::AlterRole { name, operation: Box::new(operation) })
            }
            _ => Err(reader.unexpected("a change of a role")),
        };
    }
    let name = reader.ident()?;
    reader.eats("WITH");
    let mut options = Vec::new();
    role_option(reader, &mut options)?;
    while !reader.is_at_end() {
        role_option(reader, &mut options)?;
    }
    let operation = Box::new(AlterRoleOperation::WithOptions { options });
    Ok(DdlStatement::AlterRole { name, operation })
}

/// Behind ALTER GROUP: the roles that get or lose it, or its other name.
pub(super) fn alter_group(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let group = reader.ident()?;
    let grant = match reader.expect_one_of(&["ADD USER", "DROP USER", "RENAME TO"])? {
        "RENAME TO" => {
            let operation = Box::new(AlterRoleOperation::RenameRole { role_name: reader.ident()? });
            return Ok(DdlStatement::AlterRole { name: group, operation });
        }
        change => change == "ADD USER",
    };
    let members = reader.idents()?;
    Ok(DdlStatement::Membership { roles: vec![group], members, grant })
}

/// Options of a role that are one word, and what they say.
const ROLE_FLAGS: &[(&str, RoleOption)] = &[
    ("BYPASSRLS", RoleOption::BypassRLS(true)),
    ("NOBYPASSRLS", RoleOption::BypassRLS(false)),
    ("CREATEDB", RoleOption::CreateDB(true)),
    ("NOCREATEDB", RoleOption::CreateDB(false)),
    ("CREATEROLE", RoleOption::CreateRole(true)),
    ("NOCREATEROLE", RoleOption::CreateRole(false)),
    ("INHERIT", RoleOption::Inherit(true)),
    ("NOINHERIT", RoleOption::Inherit(false)),
    ("LOGIN", RoleOption::Login(true)),
    ("NOLOGIN", RoleOption::Login(false)),
    ("REPLICATION", RoleOption::Replication(true)),
    ("NOREPLICATION", RoleOption::Replication(false)),
    ("SUPERUSER", RoleOption::SuperUser(true)),
    ("NOSUPERUSER", RoleOption::SuperUser(false)),
];

/// Reads one option of a role. Errors: 42601, also for an option of a kind that is there.
fn role_option(reader: &mut Reader<'_>, options: &mut Vec<RoleOption>) -> Result<()> {
    let unexpected = reader.unexpected("an option of a role");
    let option = if let Some((_, flag)) = ROLE_FLAGS.iter().find(|(word, _)| reader.eats(word)) {
        flag.clone()
    } else if reader.eats("ENCRYPTED PASSWORD") || reader.eats("PASSWORD") {
        RoleOption::Password(match reader.eats("NULL") {
            true => Password::NullPassword,
            false => Password::Password(Expr::Value(reader.sql(Parser::parse_value)?)),
        })
    } else if reader.eats("CONNECTION LIMIT") {
        RoleOption::ConnectionLimit(reader.sql(Parser::parse_number)?)
    } else if reader.eats("VALID UNTIL") {
        RoleOption::ValidUntil(Expr::Value(reader.sql(Parser::parse_value)?))
    } else {
        return Err(unexpected);
    };
    let kind = std::mem::discriminant(&option);
    if options.iter().any(|other| std::mem::discriminant(other) == kind) {
        let conflict = SqlError::new(unexpected.state(), "conflicting or redundant options");
        return Err(match unexpected.fields().position {
            Some(position) => conflict.position(position),
            None => conflict,
        });
    }
    options.push(option);
    Ok(())
}

/// Behind GRANT.
pub(super) fn grant_role(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    membership(reader, "TO", true)
}

/// Behind REVOKE.
pub(super) fn revoke_role(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    membership(reader, "FROM", false)
}

fn membership(reader: &mut Reader<'_>, between: &str, grant: bool) -> Result<DdlStatement> {
    let roles = reader.idents()?;
    reader.expect(between)?;
    let members = reader.idents()?;
    reader.eats("WITH ADMIN OPTION");
    if reader.eats("GRANTED BY") {
        reader.ident()?;
    }
    Ok(DdlStatement::Membership { roles, members, grant })
}

// ---------------------------------------------------------------- sequences, and moving relations

/// Behind CREATE SCHEMA.
pub(super) fn schema(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let create = Box::new(reader.sql(Parser::parse_create_schema)?);
    let elements = reader.rest().to_owned();
    reader.expect_one_of(&["CREATE", "GRANT"])?;
    while !reader.is_at_end() {
        reader.skip();
    }
    Ok(DdlStatement::CreateSchema { create, elements })
}

/// Behind CREATE SEQUENCE.
pub(super) fn create_sequence(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let if_not_exists = reader.eats("IF NOT EXISTS");
    let name = reader.name()?;
    let mut options = SequenceOptions::default();
    while !reader.is_at_end() {
        if reader.is("RESTART") {
            return Err(reader.unexpected("an option of a new sequence"));
        }
        sequence_option(reader, &mut options)?;
    }
    Ok(DdlStatement::CreateSequence { name, if_not_exists, options })
}

/// Behind ALTER SEQUENCE.
pub(super) fn alter_sequence(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let if_exists = reader.if_exists();
    let name = reader.name()?;
    if ["RENAME", "OWNER", "SET"].iter().any(|word| reader.is(word)) {
        let to = move_to(reader)?;
        return Ok(DdlStatement::Move { kind: RelationKind::Sequence, name, if_exists, to });
    }
    let mut options = SequenceOptions::default();
    sequence_option(reader, &mut options)?;
    while !reader.is_at_end() {
        sequence_option(reader, &mut options)?;
    }
    Ok(DdlStatement::AlterSequence { name, if_exists, options })
}

/// Behind ALTER MATERIALIZED.
pub(super) fn alter_materialized_view(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    reader.expect("VIEW")?;
    move_relation(reader, RelationKind::MaterializedView)
}

/// Behind ALTER VIEW.
pub(super) fn alter_view(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    let if_exists = reader.if_exists();
    let name = reader.name()?;
    if let Some(change) = alter_view::change(reader)? {
        return Ok(DdlStatement::AlterView { name, if_exists, change });
    }
    let to = move_with_columns(reader)?;
    Ok(DdlStatement::Move { kind: RelationKind::View, name, if_exists, to })
}

/// Behind ALTER INDEX.
pub(super) fn alter_index(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    move_relation(reader, RelationKind::Index)
}

/// Behind ALTER TABLE, if its schema is to change; other changes may come as a list.
pub(super) fn alter_table_schema(reader: &mut Reader<'_>) -> Result<DdlStatement> {
    move_relation(reader, RelationKind::Table)
}

fn move_relation(reader: &mut Reader<'_>, kind: RelationKind) -> Result<DdlStatement> {
    let if_exists = reader.if_exists();
    let name = reader.name()?;
    let to = match kind {
        RelationKind::MaterializedView => move_with_columns(reader)?,
        _ => move_to(reader)?,
    };
    Ok(DdlStatement::Move { kind, name, if_exists, to })
}

// ---------------------------------------------------------------- as text

impl fmt::Display for DdlStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DdlStatement::CreateStream(create) => {
                let table = create.to_string();
                write!(f, "CREATE STREAM {}", table.trim_start_matches("CREATE TABLE "))
            }
            DdlStatement::CreateMaterializedView(create) => create.fmt(f),
            DdlStatement::CreateAssertion { name, query } => {
                write!(f, "CREATE ASSERTION {name} CHECK (NOT EXISTS ({query}))")
            }
            DdlStatement::DropAssertion { name, if_exists } => {
                write!(f, "DROP ASSERTION {}{name}", maybe(*if_exists, "IF EXISTS "))
            }
            DdlStatement::CreateRole(create) => create.fmt(f),
            DdlStatement::AlterRole { name, operation } => {
                write!(f, "ALTER ROLE {name} {operation}")
            }
            DdlStatement::Membership { roles, members, grant } => {
                let (verb, between) = if *grant { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
                write!(f, "{verb} {} {between} {}", with_commas(roles), with_commas(members))
            }
            DdlStatement::CreateSchema { create, elements } => write!(f, "{create} {elements}"),
            DdlStatement::CreateSequence { name, if_not_exists, options } => {
                let if_not_exists = maybe(*if_not_exists, "IF NOT EXISTS ");
                write!(f, "CREATE SEQUENCE {if_not_exists}{name}{options}")
            }
            DdlStatement::AlterIdentities(alter) => alter.fmt(f),
            DdlStatement::AlterSequence { name, if_exists, options } => {
                write!(f, "ALTER SEQUENCE {}{name}{options}", maybe(*if_exists, "IF EXISTS "))
            }
            DdlStatement::Comment(comment) => comment.fmt(f),
            DdlStatement::Type(statement) => statement.fmt(f),
            DdlStatement::Collation(statement) => statement.fmt(f),
            DdlStatement::Owned(statement) => statement.fmt(f),
            DdlStatement::Workload(statement) => statement.fmt(f),
            DdlStatement::AlterView { name, if_exists, change } => {
                write!(f, "ALTER VIEW {}{name} {change}", maybe(*if_exists, "IF EXISTS "))
            }
            DdlStatement::Move { name, if_exists, to, .. } => {
                write!(f, "{} {}{name} {to}", self.tag(), maybe(*if_exists, "IF EXISTS "))
            }
        }
    }
}

impl fmt::Display for CreateRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RoleKind::Role => "ROLE",
            RoleKind::User => "USER",
            RoleKind::Group => "GROUP",
        };
        let if_not_exists = maybe(self.if_not_exists, "IF NOT EXISTS ");
        write!(f, "CREATE {kind} {if_not_exists}{}", with_commas(&self.names))?;
        self.options.iter().try_for_each(|option| write!(f, " {option}"))?;
        for (words, roles) in [("IN ROLE", &self.member_of), ("ROLE", &self.members)] {
            if !roles.is_empty() {
                write!(f, " {words} {}", with_commas(roles))?;
            }
        }
        Ok(())
    }
}

impl From<TypeStatement> for DdlStatement {
    fn from(statement: TypeStatement) -> Self {
        DdlStatement::Type(Box::new(statement))
    }
}

impl From<OwnedStatement> for DdlStatement {
    fn from(statement: OwnedStatement) -> Self {
        DdlStatement::Owned(Box::new(statement))
    }
}

impl From<CollationStatement> for DdlStatement {
    fn from(statement: CollationStatement) -> Self {
        DdlStatement::Collation(Box::new(statement))
    }
}
