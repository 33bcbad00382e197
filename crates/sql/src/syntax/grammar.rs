//! The table of our own statements: which keywords begin one, and what reads it.
//!
//! A text is ours if it begins like a row of [`PRODUCTIONS`]; then its errors are ours too. Any
//! other text goes to the SQL parser. So the SQL parser is never asked what it cannot say, and
//! nothing is tried first one way and then the other.
//!
//! **To add a statement**: a variant in one of the files beside this one, a function that reads it,
//! a row here, and a case in `syntax/tests.rs` (which fails without one).

use datafusion::sql::sqlparser::ast::Statement as Sql;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::reader::{Reader, is_at_end, is_word};
use super::{
    AlterIdentities, CollationStatement, CommentOn, CopyOrders, CursorStatement, DdlStatement,
    DoBlock, OwnedStatement, SessionStatement, Statement, TypeStatement, Upkeep, ViewStatement,
    WorkloadStatement, collation, comment, copy, cursor, ddl, do_block, identity, materialized,
    owned, session, types, upkeep, view, workload,
};
use crate::error::Result;

/// How one of our own statements begins, and what reads it.
pub(crate) struct Production {
    /// What a text must begin with to be this statement. In between stand words, `A|B` for one of
    /// several, tokens like `(`, and:
    /// - `<if-exists>`: IF EXISTS, or nothing;
    /// - `<name>`: a name with or without a schema;
    /// - `<names>`: names without schemas, with commas between them;
    /// - `<text>`: a text in quotes;
    /// - `…`: anything up to the next word of the pattern, but no closing bracket.
    pub begins: &'static str,
    /// Reads the statement from behind the words that every text of it begins with.
    read: fn(&mut Reader<'_>) -> Result<Statement>,
}

/// Our own statements. The first row that a text begins like is taken.
pub(crate) const PRODUCTIONS: &[Production] = &[
    Production { begins: "CHECKPOINT", read: |_| Ok(SessionStatement::Checkpoint.into()) },
    Production { begins: "BACKUP", read: |r| session::backup(r).map(Into::into) },
    Production { begins: "EXPORT DATABASE", read: |r| session::export(r).map(Into::into) },
    Production { begins: "IMPORT DATABASE", read: |r| session::import(r).map(Into::into) },
    Production {
        begins: "ALTER SYSTEM SET WORKLOAD BRAKE",
        read: |r| workload::brake(r).map(of_workload),
    },
    Production { begins: "ALTER SYSTEM", read: |r| session::alter_system(r).map(Into::into) },
    Production { begins: "PREPARE", read: |r| prepare(r).map(Into::into) },
    Production { begins: "ABORT", read: |r| session::abort(r).map(Into::into) },
    Production { begins: "SET CONSTRAINTS", read: |r| session::set_constraints(r).map(Into::into) },
    Production { begins: "SET <text>", read: |r| workload::set_variable(r).map(of_sql) },
    Production {
        begins: "SET SESSION|LOCAL <text>",
        read: |r| workload::set_variable(r).map(of_sql),
    },
    Production { begins: "UNSET", read: |r| workload::unset_variable(r).map(of_sql) },
    Production {
        begins: "SET LOCAL SESSION AUTHORIZATION",
        read: |r| session::set_local_authorization(r).map(of_sql),
    },
    Production {
        begins: "RESET SESSION AUTHORIZATION",
        read: |_| Ok(of_sql(session::reset_authorization())),
    },
    Production { begins: "CREATE WORKLOAD", read: |r| workload::create(r).map(of_workload) },
    Production { begins: "ALTER WORKLOAD", read: |r| workload::alter(r).map(of_workload) },
    Production { begins: "DROP WORKLOAD", read: |r| workload::drop(r).map(of_workload) },
    Production {
        begins: "GRANT USAGE ON WORKLOAD CLASS",
        read: |r| workload::usage(r, true).map(of_workload),
    },
    Production {
        begins: "REVOKE USAGE ON WORKLOAD CLASS",
        read: |r| workload::usage(r, false).map(of_workload),
    },
    Production {
        begins: "EXPLAIN WORKLOAD",
        read: |r| workload::explain(r).map(|query| of_sql(Sql::Query(query))),
    },
    Production { begins: "DO", read: |r| do_block::do_block(r).map(of_block) },
    Production { begins: "DISCARD", read: |r| session::discard(r).map(Into::into) },
    Production { begins: "LISTEN", read: |r| session::listen(r).map(Into::into) },
    Production { begins: "UNLISTEN", read: |r| session::unlisten(r).map(Into::into) },
    Production { begins: "NOTIFY", read: |r| session::notify(r).map(Into::into) },
    Production { begins: "DECLARE", read: |r| cursor::declare(r).map(Into::into) },
    Production { begins: "FETCH", read: |r| cursor::fetch(r).map(Into::into) },
    Production { begins: "MOVE", read: |r| cursor::move_cursor(r).map(Into::into) },
    Production { begins: "CLOSE", read: |r| cursor::close(r).map(Into::into) },
    Production { begins: "VACUUM", read: |r| upkeep::vacuum(r).map(Into::into) },
    Production { begins: "ANALYZE", read: |r| upkeep::analyze(r).map(Into::into) },
    Production { begins: "ANALYSE", read: |r| upkeep::analyze(r).map(Into::into) },
    Production { begins: "REINDEX", read: |r| upkeep::reindex(r).map(Into::into) },
    Production { begins: "CLUSTER", read: |r| upkeep::cluster(r).map(Into::into) },
    Production {
        begins: "REFRESH MATERIALIZED VIEW",
        read: |r| upkeep::refresh(r).map(Into::into),
    },
    Production {
        begins: "CREATE STATISTICS",
        read: |r| upkeep::create_statistics(r).map(Into::into),
    },
    Production {
        begins: "ALTER STATISTICS",
        read: |r| upkeep::alter_statistics(r).map(Into::into),
    },
    Production { begins: "DROP STATISTICS", read: |r| upkeep::drop_statistics(r).map(Into::into) },
    Production {
        begins: "ALTER INDEX <if-exists> <name> SET|RESET (",
        read: |r| upkeep::storage_of_index(r).map(Into::into),
    },
    Production { begins: "SUBSCRIBE", read: |r| view::subscribe(r).map(Into::into) },
    Production { begins: "EXPLAIN MAINTENANCE", read: |r| view::maintenance(r).map(Into::into) },
    Production { begins: "EXPLAIN ( … TRIGGERS", read: |r| view::triggers(r).map(Into::into) },
    Production {
        begins: "COPY <name> FROM … FORMAT ORDERBOOK",
        read: |r| view::copy_orders(r).map(Into::into),
    },
    Production { begins: "COPY", read: copy::copy },
    Production { begins: "CREATE STREAM", read: |r| ddl::create_stream(r).map(Into::into) },
    Production { begins: "CREATE ASSERTION", read: |r| ddl::create_assertion(r).map(Into::into) },
    Production { begins: "DROP ASSERTION", read: |r| ddl::drop_assertion(r).map(Into::into) },
    Production { begins: "CREATE ROLE|USER|GROUP", read: |r| ddl::create_role(r).map(Into::into) },
    Production { begins: "ALTER ROLE|USER", read: |r| ddl::alter_role(r).map(Into::into) },
    Production { begins: "ALTER GROUP", read: |r| ddl::alter_group(r).map(Into::into) },
    Production { begins: "GRANT <names> TO", read: |r| ddl::grant_role(r).map(Into::into) },
    Production { begins: "REVOKE <names> FROM", read: |r| ddl::revoke_role(r).map(Into::into) },
    Production { begins: "COMMENT", read: |r| comment::comment(r).map(of_comment) },
    Production {
        begins: "ALTER DEFAULT PRIVILEGES",
        read: |r| owned::default_privileges(r).map(of_owned),
    },
    Production { begins: "REASSIGN OWNED", read: |r| owned::reassign(r).map(of_owned) },
    Production { begins: "DROP OWNED", read: |r| owned::drop(r).map(of_owned) },
    Production { begins: "CREATE TYPE", read: |r| types::create_type(r).map(of_type) },
    Production { begins: "CREATE DOMAIN", read: |r| types::create_domain(r).map(of_type) },
    Production { begins: "ALTER TYPE", read: |r| types::alter_type(r).map(of_type) },
    Production { begins: "ALTER DOMAIN", read: |r| types::alter_domain(r).map(of_type) },
    Production { begins: "DROP TYPE", read: |r| types::drop_types(r, false).map(of_type) },
    Production { begins: "DROP DOMAIN", read: |r| types::drop_types(r, true).map(of_type) },
    Production { begins: "CREATE COLLATION", read: |r| collation::create(r).map(of_collation) },
    Production { begins: "DROP COLLATION", read: |r| collation::drop(r).map(of_collation) },
    Production {
        begins: "CREATE SCHEMA … CREATE|GRANT", read: |r| ddl::schema(r).map(Into::into)
    },
    Production { begins: "CREATE SEQUENCE", read: |r| ddl::create_sequence(r).map(Into::into) },
    Production {
        begins: "ALTER TABLE … ADD GENERATED",
        read: |r| identity::alter_identities(r).map(of_identities),
    },
    Production {
        begins: "ALTER TABLE … DROP IDENTITY",
        read: |r| identity::alter_identities(r).map(of_identities),
    },
    Production {
        begins: "ALTER TABLE … SET GENERATED|INCREMENT|MINVALUE|MAXVALUE|START|RESTART|CACHE|CYCLE|NO",
        read: |r| identity::alter_identities(r).map(of_identities),
    },
    Production {
        begins: "ALTER TABLE … RESTART",
        read: |r| identity::alter_identities(r).map(of_identities),
    },
    Production { begins: "ALTER SEQUENCE", read: |r| ddl::alter_sequence(r).map(Into::into) },
    Production {
        begins: "CREATE MATERIALIZED VIEW",
        read: |r| {
            let create = materialized::create_materialized_view(r)?;
            Ok(DdlStatement::CreateMaterializedView(create).into())
        },
    },
    Production {
        begins: "ALTER MATERIALIZED",
        read: |r| ddl::alter_materialized_view(r).map(Into::into),
    },
    Production {
        begins: "ALTER VIEW <if-exists> <name> RENAME|OWNER|SET|RESET|ALTER",
        read: |r| ddl::alter_view(r).map(Into::into),
    },
    Production { begins: "ALTER INDEX", read: |r| ddl::alter_index(r).map(Into::into) },
    Production {
        begins: "ALTER TABLE <if-exists> <name> SET SCHEMA",
        read: |r| ddl::alter_table_schema(r).map(Into::into),
    },
];

impl From<SessionStatement> for Statement {
    fn from(statement: SessionStatement) -> Self {
        Statement::Session(Box::new(statement))
    }
}

impl From<CursorStatement> for Statement {
    fn from(statement: CursorStatement) -> Self {
        SessionStatement::Cursor(statement).into()
    }
}

impl From<Upkeep> for Statement {
    fn from(statement: Upkeep) -> Self {
        SessionStatement::Upkeep(statement).into()
    }
}

impl From<ViewStatement> for Statement {
    fn from(statement: ViewStatement) -> Self {
        Statement::View(Box::new(statement))
    }
}

impl From<CopyOrders> for Statement {
    fn from(statement: CopyOrders) -> Self {
        Statement::CopyOrders(Box::new(statement))
    }
}

impl From<DdlStatement> for Statement {
    fn from(statement: DdlStatement) -> Self {
        Statement::Ddl(Box::new(statement))
    }
}

/// Parses the tokens of one statement, of which `text` is the text.
///
/// Errors: 42601 with a position in `text`. Panics: if there are no tokens.
pub(crate) fn parse(tokens: &[TokenWithSpan], text: &str) -> Result<Statement> {
    statement(&mut Reader::new(text, tokens))
}

fn statement(reader: &mut Reader<'_>) -> Result<Statement> {
    let found = match production(reader) {
        Some(production) => {
            let own = production.begins.split(' ').take_while(|part| is_plain(part));
            own.for_each(|word| assert!(reader.eats(word), "the text begins with it"));
            (production.read)(reader)?
        }
        None => Statement::Sql(Box::new(reader.sql_with_joins(|parser| {
            let statement = parser.parse_statement()?;
            match is_at_end(parser) {
                true => Ok(statement),
                false => parser.expected("end of statement", parser.peek_token()),
            }
        })?)),
    };
    reader.expect_end()?;
    Ok(found)
}

/// The row that the rest of a text begins like.
pub(crate) fn production(reader: &Reader<'_>) -> Option<&'static Production> {
    let first = reader.ahead().next()?;
    PRODUCTIONS.iter().find(|production| {
        let mut pattern = production.begins.split(' ');
        // Most texts are no statement of ours, and their first word says so.
        pattern.next().is_some_and(|word| is_word(first, word))
            && begins(reader.ahead().skip(1), pattern)
    })
}

/// Whether a part of a pattern is a word that every text of the statement has there.
fn is_plain(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn begins<'t>(
    tokens: impl Iterator<Item = &'t Token>,
    pattern: impl Iterator<Item = &'static str>,
) -> bool {
    let mut tokens = tokens.peekable();
    let mut anything = false;
    for part in pattern {
        let found = match part {
            "…" => {
                anything = true;
                continue;
            }
            "<if-exists>" => {
                let _ = tokens.next_if(|token| is_word(token, "IF")).is_some()
                    && tokens.next_if(|token| is_word(token, "EXISTS")).is_some();
                true
            }
            "<text>" => {
                tokens.next().is_some_and(|token| matches!(token, Token::SingleQuotedString(_)))
            }
            "<name>" => eats_list(&mut tokens, &Token::Period),
            "<names>" => eats_list(&mut tokens, &Token::Comma),
            words if anything => {
                let mut tokens = tokens.by_ref().take_while(|token| **token != Token::RParen);
                tokens.any(|token| is_one_of(token, words))
            }
            words => tokens.next().is_some_and(|token| is_one_of(token, words)),
        };
        if !found {
            return false;
        }
        anything = false;
    }
    true
}

fn is_one_of(token: &Token, words: &str) -> bool {
    words.split('|').any(|word| is_word(token, word)) || token.to_string() == words
}

/// Reads identifiers with `between` between them; false if one is missing.
fn eats_list<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t Token>>,
    between: &Token,
) -> bool {
    loop {
        if tokens.next_if(|token| matches!(token, Token::Word(_))).is_none() {
            return false;
        }
        if tokens.next_if(|token| *token == between).is_none() {
            return true;
        }
    }
}

/// `PREPARE name [(types)] AS statement`. It stands here because a statement stands within it.
fn prepare(reader: &mut Reader<'_>) -> Result<SessionStatement> {
    let name = reader.ident()?;
    let mut types = Vec::new();
    if reader.eats_token(&Token::LParen) {
        types = reader.sql(|parser| parser.parse_comma_separated(Parser::parse_data_type))?;
        reader.expect_token(&Token::RParen)?;
    }
    reader.expect("AS")?;
    if reader.is("PREPARE") {
        return Err(reader.unexpected("a statement that can be prepared"));
    }
    let text = reader.rest().to_owned();
    statement(reader)?;
    Ok(SessionStatement::Prepare { name, types, text })
}

fn of_type(statement: TypeStatement) -> Statement {
    DdlStatement::from(statement).into()
}

fn of_collation(statement: CollationStatement) -> Statement {
    DdlStatement::from(statement).into()
}

fn of_owned(statement: OwnedStatement) -> Statement {
    DdlStatement::from(statement).into()
}

fn of_comment(comment: CommentOn) -> Statement {
    DdlStatement::Comment(comment).into()
}

fn of_identities(changes: AlterIdentities) -> Statement {
    DdlStatement::AlterIdentities(changes).into()
}

fn of_workload(statement: WorkloadStatement) -> Statement {
    DdlStatement::Workload(Box::new(statement)).into()
}

fn of_sql(statement: Sql) -> Statement {
    Statement::Sql(Box::new(statement))
}

fn of_block(block: DoBlock) -> Statement {
    SessionStatement::Do(block).into()
}
