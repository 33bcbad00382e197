//! Functions of one value in FROM, and series whose bounds are not constants.
//!
//! `FROM upper('a') AS u` is a table of one row: `LATERAL (SELECT upper('a') AS u) AS u`. A series of
//! constants is a table that makes its rows one after the other; any other series is a list that becomes
//! rows, which may name what stands on its left.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Value, Visit,
    VisitMut, Visitor, VisitorMut,
};

use halcyon_dialect::made::{call, cast, number, quoted};
use halcyon_dialect::many_rows::FUNCTIONS;
use halcyon_dialect::search_cycle;
use halcyon_sql::error::{Result, SqlError};
use halcyon_sql::identifier::fold;
use halcyon_sql::parse::parse_own_query;

use crate::rows_from;

/// The function that gives as a list what `generate_series` gives as rows.
pub const SERIES: &str = "generate_series\u{1}list";

/// Words that are calls without brackets.
const WORDS: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
];

/// Replaces such functions, and ROWS FROM, in the FROM clauses of a query, and SEARCH and CYCLE in its WITH.
/// `is_table`: whether a function is one that gives rows by itself.
///
/// Errors: 42601 and 0A000 for what ROWS FROM cannot hold; those of [`search_cycle::settle`].
pub fn settle(query: &mut Query, is_table: &dyn Fn(&str) -> bool) -> Result<()> {
    match VisitMut::visit(query, &mut Settle(is_table)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Settle<'a>(&'a dyn Fn(&str) -> bool);

impl VisitorMut for Settle<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        match search_cycle::settle(query) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let many = |name: &str| (self.0)(name) || gives_rows(name);
        if let Err(error) = rows_from::settle(factor, &many) {
            return ControlFlow::Break(error);
        }
        if let Some(called) = Call::of(factor) {
            let name = called.name.as_str();
            if matches!(name, "generate_series" | "range") {
                if name == "generate_series" && !called.is_constant() {
                    *factor = called.into_list();
                }
            } else if !(self.0)(name) && !gives_rows(name) {
                *factor = called.into_row();
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a function is another module's, which makes rows or records of it.
fn gives_rows(name: &str) -> bool {
    let of_documents =
        ["json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset"];
    FUNCTIONS.contains(&name) || name == "generate_subscripts" || of_documents.contains(&name)
}

/// A call in FROM.
struct Call {
    /// Its own name, without a schema.
    name: String,
    path: ObjectName,
    /// None for a word that is a call without brackets.
    args: Option<Vec<FunctionArg>>,
    alias: Option<TableAlias>,
    with_ordinality: bool,
}

impl Call {
    fn of(factor: &TableFactor) -> Option<Call> {
        let (path, args, alias, with_ordinality) = match factor {
            TableFactor::Table { name, args, alias, with_ordinality, .. } => {
                (name, args.as_ref().map(|args| args.args.clone()), alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, Some(args.clone()), alias, *with_ordinality)
            }
            _ => return None,
        };
        let own = path.0.last().and_then(ObjectNamePart::as_ident)?;
        let name = fold(own);
        let is_word =
            || path.0.len() == 1 && own.quote_style.is_none() && WORDS.contains(&name.as_str());
        if args.is_none() && !is_word() {
            return None;
        }
        let (path, alias) = (path.clone(), alias.clone());
        Some(Call { name, path, args, alias, with_ordinality })
    }

    /// Whether nothing but constants stands in the call.
    fn is_constant(&self) -> bool {
        struct Varies;
        impl Visitor for Varies {
            type Break = ();

            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                match expr {
                    Expr::Identifier(_)
                    | Expr::CompoundIdentifier(_)
                    | Expr::Function(_)
                    | Expr::Subquery(_)
                    | Expr::Exists { .. } => ControlFlow::Break(()),
                    Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => {
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        !self.with_ordinality && self.args.visit(&mut Varies).is_continue()
    }

    /// The call's table alias, with a name for its only column.
    fn named(&self) -> TableAlias {
        let mut alias = self.alias.clone().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: quoted(self.name.clone()),
            columns: Vec::new(),
            at: None,
        });
        if alias.columns.is_empty() {
            let name = alias.name.clone();
            alias.columns.push(TableAliasColumnDef { name, data_type: None });
        }
        alias
    }

    /// A series as rows of a list.
    fn into_list(self) -> TableFactor {
        let alias = Some(self.named());
        let mut list = call(SERIES, Vec::new());
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut list {
            list.args = self.args.unwrap_or_default();
        }
        TableFactor::UNNEST {
            alias,
            array_exprs: vec![list],
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: self.with_ordinality,
        }
    }

    /// The call as a query of one row.
    fn into_row(self) -> TableFactor {
        let mut alias = self.named();
        let mut items: Vec<SelectItem> = Vec::new();
        let mut item = |expr: Expr, name: Ident| {
            items.push(SelectItem::ExprWithAlias { expr, alias: name });
        };
        let mut function = call("f", Vec::new());
        if let Expr::Function(function) = &mut function {
            function.name = self.path;
            match (self.args, &mut function.args) {
                (Some(args), FunctionArguments::List(list)) => list.args = args,
                (None, of) => *of = FunctionArguments::None,
                _ => {}
            }
        }
        item(function, alias.columns[0].name.clone());
        if self.with_ordinality {
            if alias.columns.len() == 1 {
                let name = quoted("ordinality".to_owned());
                alias.columns.push(TableAliasColumnDef { name, data_type: None });
            }
            item(cast(number("1"), DataType::BigInt(None)), alias.columns[1].name.clone());
        }
        let mut query = parse_own_query("SELECT NULL");
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = items;
        }
        TableFactor::Derived {
            lateral: true,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        }
    }
}
