//! MERGE: rows of a source change, delete or add rows of a target.
//!
//! MERGE is brought to a compound statement ([`super::compound`]): every clause that changes something
//! is an UPDATE … FROM, a DELETE … USING or an INSERT … SELECT, whose condition is the clause's and that no
//! clause before it takes the row. All of them read the tables as they were, so a source row has one
//! action. What the parts of a WITH pass over is an error here: a second change of one row (21000).
//!
//! Cost: a join of source and target for every clause that changes something.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Expr, MergeAction, MergeClauseKind, MergeInsertKind};

use super::compound::{Binding, Last};
use super::{BoundWrite, Write};
use halcyon_base::interrupt::watching;
use halcyon_catalog::{Column, Relation, Table};
use halcyon_dialect::volatile_ctes::is_volatile;
use halcyon_plan::bind::Binder;
use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::{fold, parts};
use halcyon_sql::parse::{parse, parse_own_expr, parse_own_query};
use halcyon_sql::syntax::{MERGE_DEFAULTS, MERGE_NOTHING, Overriding, Statement};
use halcyon_sql::types::SqlType;

/// Binds MERGE. `with` stands before it.
pub fn bind(
    binder: &Binder<'_>,
    merge: &ast::Merge,
    with: Option<&ast::With>,
    text: &str,
    param_types: &[Option<SqlType>],
) -> Result<BoundWrite> {
    if with.is_some_and(|with| with.recursive) {
        let message = "WITH RECURSIVE is not supported for MERGE statement";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if merge.output.is_some() {
        let message = "syntax error at or near \"RETURNING\"";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
            .hint("A query behind the MERGE shows what it has left."));
    }
    if merge.clauses.is_empty() {
        let message = "syntax error at end of input";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
            .detail("MERGE has at least one WHEN clause."));
    }
    let merging = Merging::of(binder, merge)?;
    let clauses = merging.clauses()?;
    let writes = merging.writes(&clauses)?;
    if writes.len() > 1 && (is_volatile(&merge.source) || is_volatile(&merge.clauses)) {
        return Err(SqlError::unsupported("MERGE by a volatile source or condition")
            .detail("Each clause asks for the rows again.")
            .hint("Put the source's rows into a temporary table before."));
    }
    let last = Last::Merge(merge);
    let mut binding = Binding::new(binder, with, last, text, param_types);
    let plain = match with {
        Some(with) => binding.entries(with, last)?,
        None => None,
    };
    let query = merging.every_pair(&clauses);
    binding.validate(ast::Query { with: plain.clone(), ..query })?;
    for write in &writes {
        let write = match write {
            ast::Statement::Insert(insert) => Write::Insert(insert),
            ast::Statement::Update(update) => Write::Update(update),
            ast::Statement::Delete(delete) => Write::Delete(delete),
            _ => unreachable!("clauses are of three kinds"),
        };
        binding.write("", write, plain.as_ref())?;
    }
    binding.refuse_second_changes();
    binding.finish(Arc::new([]), "MERGE")
}

/// A MERGE with its target.
struct Merging<'a> {
    merge: &'a ast::Merge,
    table: Arc<Table>,
    /// The name that the target goes by.
    alias: ast::Ident,
}

/// A clause with all that a row has to satisfy for it, but for the condition of the join.
struct Clause<'a> {
    clause: &'a ast::MergeClause,
    matched: bool,
    condition: Option<Expr>,
}

impl<'a> Merging<'a> {
    fn of(binder: &Binder<'_>, merge: &'a ast::Merge) -> Result<Self> {
        let ast::TableFactor::Table { name, alias, .. } = &merge.table else {
            return Err(SqlError::unsupported("MERGE into anything but a table"));
        };
        let target = parts(name)?;
        let path = binder.session.search_path.as_slice();
        if let Some(found) = binder.catalog.resolve(&target, path)
            && let Relation::View(view) = found.relation
        {
            let message = format!("cannot execute MERGE on relation \"{}\"", view.name);
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail("This operation is not supported for views."));
        }
        let table = super::find_target(binder, name, "merge into")?;
        let alias = match alias {
            Some(alias) => alias.name.clone(),
            None => super::ident(&table.name),
        };
        if source_name(&merge.source).is_some_and(|source| source == fold(&alias)) {
            let name = fold(&alias);
            return Err(SqlError::new(
                SqlState::DUPLICATE_ALIAS,
                format!("name \"{name}\" specified more than once"),
            )
            .detail("The name is used both as MERGE target table and data source."));
        }
        Ok(Merging { merge, table, alias })
    }

    /// The target in a FROM, under its name in the statement.
    fn target(&self) -> ast::TableWithJoins {
        let mut factor = self.merge.table.clone();
        if let ast::TableFactor::Table { name, alias, .. } = &mut factor {
            let full = vec![super::ident(&self.table.schema), super::ident(&self.table.name)];
            *name = ast::ObjectName::from(full);
            let name = self.alias.clone();
            alias.get_or_insert(ast::TableAlias {
                explicit: true,
                name,
                columns: Vec::new(),
                at: None,
            });
        }
        ast::TableWithJoins { relation: factor, joins: Vec::new() }
    }

    fn source(&self) -> ast::TableWithJoins {
        ast::TableWithJoins { relation: self.merge.source.clone(), joins: Vec::new() }
    }

    /// The clauses in order. Errors: 42601 for one that no row can reach, and for kinds that are not there.
    fn clauses(&self) -> Result<Vec<Clause<'a>>> {
        let mut clauses: Vec<Clause<'a>> = Vec::new();
        let mut before: [Vec<Expr>; 2] = Default::default();
        let mut closed = [false; 2];
        for clause in &self.merge.clauses {
            let matched = match clause.clause_kind {
                MergeClauseKind::Matched => true,
                MergeClauseKind::NotMatched => false,
                MergeClauseKind::NotMatchedByTarget | MergeClauseKind::NotMatchedBySource => {
                    let message = "syntax error at or near \"BY\"";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            // The conditions of a clause have those of all before it.
            SqlError::unless_interrupted()?;
            let kind = usize::from(matched);
            if closed[kind] {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            closed[kind] = clause.predicate.is_none();
            let refused = before[kind]
                .iter()
                .map(|before| Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(before.clone())))));
            let own = clause.predicate.iter().map(|own| Expr::Nested(Box::new(own.clone())));
            let condition = refused.chain(own).reduce(and);
            before[kind].extend(clause.predicate.clone());
            clauses.push(Clause { clause, matched, condition });
        }
        Ok(clauses)
    }

    /// A query that joins source and target and names all that clauses over both name: what is wrong
    /// with it is wrong with the statement.
    fn every_pair(&self, clauses: &[Clause<'_>]) -> ast::Query {
        let mut query = parse_own_query("SELECT 1 FROM t WHERE true");
        let conditions = clauses.iter().filter(|clause| clause.matched);
        let conditions = conditions.filter_map(|clause| clause.clause.predicate.clone());
        let on = Expr::Nested(self.merge.on.clone());
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.from = vec![self.target(), self.source()];
            select.selection = Some(
                conditions.fold(on, |all, condition| and(all, Expr::Nested(Box::new(condition)))),
            );
        }
        query
    }

    /// The writes of the clauses that change something.
    fn writes(&self, clauses: &[Clause<'_>]) -> Result<Vec<ast::Statement>> {
        let mut writes = Vec::new();
        for Clause { clause, condition, .. } in clauses {
            SqlError::unless_interrupted()?;
            let joined = || {
                let on = Expr::Nested(self.merge.on.clone());
                condition.iter().cloned().fold(on, and)
            };
            writes.extend(match &clause.action {
                MergeAction::Update(update) if is_nothing(update) => None,
                MergeAction::Update(update) => {
                    if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                        let message = "syntax error at or near \"WHERE\"";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    let ast::Statement::Update(mut made) =
                        own("UPDATE t SET a = 1 FROM s WHERE true")
                    else {
                        unreachable!("the text is an UPDATE")
                    };
                    made.table = self.target();
                    made.assignments = update.assignments.clone();
                    made.from = Some(ast::UpdateTableFromKind::AfterSet(vec![self.source()]));
                    made.selection = Some(joined());
                    Some(ast::Statement::Update(made))
                }
                MergeAction::Delete { .. } => {
                    let ast::Statement::Delete(mut made) = own("DELETE FROM t USING s WHERE true")
                    else {
                        unreachable!("the text is a DELETE")
                    };
                    made.from = ast::FromTable::WithFromKeyword(vec![self.target()]);
                    made.using = Some(vec![self.source()]);
                    made.selection = Some(joined());
                    Some(ast::Statement::Delete(made))
                }
                MergeAction::Insert(insert) => self.insert(insert, condition.as_ref())?,
            });
        }
        Ok(writes)
    }

    /// INSERT … SELECT of the source's rows that match no row of the target.
    fn insert(
        &self,
        insert: &ast::MergeInsertExpr,
        condition: Option<&Expr>,
    ) -> Result<Option<ast::Statement>> {
        let (MergeInsertKind::Values(values), None) = (&insert.kind, &insert.insert_predicate)
        else {
            let message = "syntax error at or near \"INSERT\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let mut names = insert.columns.clone();
        let mut overriding = Overriding::Nothing;
        if let Some(word) = names.first().and_then(|name| parts(name).ok()?.pop()) {
            match Overriding::of_word(&word) {
                Some(found) => {
                    overriding = found;
                    names.remove(0);
                }
                None if word == MERGE_NOTHING => return Ok(None),
                None => {}
            }
        }
        let defaults = names.first().is_some_and(|name| super::is_named(name, MERGE_DEFAULTS));
        let [row] = values.rows.as_slice() else {
            let message = "syntax error at or near \",\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        };
        let given = if defaults { &[][..] } else { row.content.as_slice() };
        let columns = match defaults {
            true => Vec::new(),
            false => super::insert::target_columns(&self.table, &names)?,
        };
        super::insert::refuse_arity(given.len(), columns.len(), !names.is_empty())?;
        let (mut into, mut items) = (Vec::new(), Vec::new());
        for (expr, column) in given.iter().zip(&columns) {
            if !super::source::is_default(expr) {
                let name = super::ident(&self.table.columns[*column as usize].name);
                into.push(ast::ObjectName::from(vec![name]));
                items.push(ast::SelectItem::UnnamedExpr(expr.clone()));
            }
        }
        if into.is_empty() {
            // All columns have their defaults: one of them is named, so that there is a row per row.
            let first = self.table.columns.iter().position(|column| column.generated.is_none());
            let first = &self.table.columns[first.unwrap_or(0)];
            into.push(ast::ObjectName::from(vec![super::ident(&first.name)]));
            items.push(ast::SelectItem::UnnamedExpr(default_of(first)));
            overriding = Overriding::User;
        }
        let mut query =
            parse_own_query("SELECT 1 FROM s WHERE NOT EXISTS (SELECT 1 FROM t WHERE true)");
        let ast::SetExpr::Select(select) = query.body.as_mut() else {
            unreachable!("the text is a SELECT")
        };
        (select.projection, select.from) = (items, vec![self.source()]);
        if let Some(Expr::Exists { subquery, .. }) = &mut select.selection
            && let ast::SetExpr::Select(matches) = subquery.body.as_mut()
        {
            matches.from = vec![self.target()];
            matches.selection = Some((*self.merge.on).clone());
        }
        let conditions = select.selection.take().into_iter().chain(condition.cloned());
        select.selection = conditions.reduce(and);
        let ast::Statement::Insert(mut made) = own("INSERT INTO t VALUES (1)") else {
            unreachable!("the text is an INSERT")
        };
        let full = vec![super::ident(&self.table.schema), super::ident(&self.table.name)];
        made.table = ast::TableObject::TableName(ast::ObjectName::from(full));
        made.columns = into;
        made.source = Some(Box::new(query));
        overriding.put(&mut made);
        Ok(Some(ast::Statement::Insert(made)))
    }
}

/// The name that a source goes by, if it has one.
fn source_name(source: &ast::TableFactor) -> Option<String> {
    match source {
        ast::TableFactor::Table { alias: Some(alias), .. }
        | ast::TableFactor::Derived { alias: Some(alias), .. } => Some(fold(&alias.name)),
        ast::TableFactor::Table { name, .. } => parts(name).ok()?.pop(),
        _ => None,
    }
}

/// `left AND right`.
fn and(left: Expr, right: Expr) -> Expr {
    let (left, right) = (Box::new(left), Box::new(right));
    Expr::BinaryOp { left, op: ast::BinaryOperator::And, right }
}

/// A statement that the engine wrote, also for one that is to end: an error here would be taken for the engine's.
fn own(text: &str) -> ast::Statement {
    let parsed = watching(|| false, || parse(text)).expect("the engine writes SQL").pop();
    match parsed.map(|parsed| parsed.statement) {
        Some(Statement::Sql(statement)) => *statement,
        _ => unreachable!("it is one statement of the SQL parser's"),
    }
}

/// Whether an UPDATE stands for DO NOTHING.
fn is_nothing(update: &ast::MergeUpdateExpr) -> bool {
    match update.assignments.as_slice() {
        [ast::Assignment { target: ast::AssignmentTarget::ColumnName(name), .. }] => {
            super::is_named(name, MERGE_NOTHING)
        }
        _ => false,
    }
}

/// The value of a column that no one gives one; any value if a sequence fills it.
fn default_of(column: &Column) -> Expr {
    match &column.default {
        Some(text) => parse_own_expr(text),
        None => Expr::Value(ast::Value::Null.into()),
    }
}
