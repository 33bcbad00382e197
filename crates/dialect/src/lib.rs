//! PostgreSQL's syntax rewritten, tree by tree, into what DataFusion's planner takes.
//!
//! Two kinds of work, both before names are resolved:
//! - **Names of result columns** are PostgreSQL's (`count`, `case`, `?column?`), and a name may
//!   stand more than once. DataFusion wants names to be unique, so later ones carry an invisible
//!   tail that [`halcyon_sql::repeated::shown_name`] cuts off.
//! - **Operators and clauses** that DataFusion lacks become functions of ours (`halcyon_plan::functions`)
//!   or simpler syntax: FETCH FIRST, LIKE … ESCAPE, SIMILAR TO, AT TIME ZONE, EXTRACT of fields
//!   with a fraction, `^`, row comparisons. Rows compared with the rows of a subquery are calls of
//!   [`ROW`], for the binder.

#![forbid(unsafe_code)]

mod arguments;
mod array_syntax;
pub mod cte_scopes;
pub mod groupings;
mod hypothetical;
pub mod locking;
pub mod made;
pub mod many_rows;
mod quoted_arguments;
mod records;
mod recursive_types;
mod row_bounds;
mod row_fields;
pub mod search_cycle;
mod set_names;
mod set_order;
mod similar;
mod sorted_input;
mod standard_json;
mod symmetric;
pub mod target_lists;
pub mod typed_values;
pub mod volatile_ctes;
mod whole_rows;
mod wildcards;
pub mod windows;

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, DateTimeField, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator, LimitClause,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, TableSampleKind, TableSampleMethod, TableWithJoins,
    UnaryOperator, Value, VisitMut, VisitorMut,
};

use halcyon_value::Interval;
use halcyon_value::calendar::OF_FUNCTION;
use halcyon_value::interval::{self, Field as FieldOfInterval};

use halcyon_sql::error::{Result, SqlError, SqlState};
use halcyon_sql::identifier::fold;
use halcyon_sql::repeated::{TAIL, repeated_name};

use crate::array_syntax::membership;
use crate::made::{binary, call, cast, is_quoted, nested, number, quoted, string};
use crate::set_names::{Columns, is_set};

/// The name of the function that stands for COLLATE: of a text and the collation's name, whose parts are separated
/// by `\u{1f}`.
pub const COLLATE: &str = "collate\u{1}";

/// The function that stands for a row that is compared with rows of a subquery.
pub const ROW: &str = "row\u{1}";

/// Rewrites a query in place. Errors: 0A000 for clauses that nobody offers.
pub fn rewrite_query(query: &mut Query) -> Result<()> {
    finish(VisitMut::visit(query, &mut Rewrite { level: 0 }))
}

/// Rewrites a scalar expression in place.
pub fn rewrite_expr(expr: &mut Expr) -> Result<()> {
    finish(VisitMut::visit(expr, &mut Rewrite { level: 0 }))
}

fn finish(flow: ControlFlow<SqlError>) -> Result<()> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewrite {
    /// Queries around the place.
    level: usize,
}

impl VisitorMut for Rewrite {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.level += 1;
        let settled = crate::recursive_types::settle(query);
        if let Err(error) = settled.and_then(|()| crate::row_bounds::settle(query)) {
            return ControlFlow::Break(error);
        }
        crate::set_order::settle(query);
        if self.level == 1 {
            separate_order_names(query);
        } else {
            crate::set_names::separate(query);
        }
        let resolved = match query.body.as_mut() {
            SetExpr::Select(select) => windows::resolve(select, query.order_by.as_mut()),
            _ => Ok(()),
        };
        let checked = resolved.and_then(|()| crate::volatile_ctes::refuse(query));
        match checked.and_then(|()| clauses(query)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<SqlError> {
        self.level -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        if select.into.is_some() {
            return ControlFlow::Break(
                SqlError::unsupported("SELECT INTO").hint("Use CREATE TABLE … AS."),
            );
        }
        if let Err(error) = crate::whole_rows::count_rows(select) {
            return ControlFlow::Break(error);
        }
        if let Err(error) = crate::groupings::check(select) {
            return ControlFlow::Break(error);
        }
        crate::wildcards::name_whole_tables(select);
        crate::groupings::name_each_once(select);
        crate::sorted_input::follow(select);
        name_items(&mut select.projection);
        let checked = windows::resolve(select, None)
            .and_then(|()| many_rows::check(select))
            .and_then(|()| select.from.iter().try_for_each(joins_have_conditions));
        match checked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        name_function_columns(factor);
        if let TableFactor::Table {
            name, args: Some(ast::TableFunctionArgs { args, .. }), ..
        }
        | TableFactor::Function { name, args, .. } = factor
        {
            arguments::in_order(name, args);
        }
        let records = crate::records::as_columns(factor);
        match records.and_then(|()| number_rows(factor)).and_then(|()| sample(factor)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        crate::symmetric::settle(expr);
        crate::similar::settle(expr);
        match row_fields::settle(expr).and_then(|()| array_syntax::before_its_parts(expr)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match operator(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Errors: 42601 for a join without ON, USING, NATURAL or CROSS.
fn joins_have_conditions(tables: &TableWithJoins) -> Result<()> {
    let within = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => joins_have_conditions(table_with_joins),
        _ => Ok(()),
    };
    within(&tables.relation)?;
    for join in &tables.joins {
        within(&join.relation)?;
        if let JoinOperator::Join(JoinConstraint::None)
        | JoinOperator::Inner(JoinConstraint::None)
        | JoinOperator::Left(JoinConstraint::None)
        | JoinOperator::LeftOuter(JoinConstraint::None)
        | JoinOperator::Right(JoinConstraint::None)
        | JoinOperator::RightOuter(JoinConstraint::None)
        | JoinOperator::FullOuter(JoinConstraint::None) = &join.join_operator
        {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("the join with {} has no condition", join.relation),
            )
            .hint("A join has ON or USING behind it; CROSS JOIN has neither."));
        }
    }
    Ok(())
}

/// `SELECT upper(t.a) AS a … ORDER BY t.a`: output and column may share their name. DataFusion has
/// both in one schema while it sorts and finds the name ambiguous, so the output gets a tail.
fn separate_order_names(query: &mut Query) {
    let mut none = Vec::new();
    let order = match query.order_by.as_mut().map(|by| &mut by.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        Some(_) => return,
        None => &mut none,
    };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    // DataFusion takes a name with a point for that of a table's column.
    let has_point = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value.contains('.'));
    let has_points = select.projection.iter().any(has_point);
    let mut columns = Columns(HashSet::new());
    for by in order.iter() {
        let _ = ast::Visit::visit(&by.expr, &mut columns);
    }
    // Rows of a set are made between the columns and the list, whose names meet there.
    if select.projection.iter().any(is_set) {
        let _ = ast::Visit::visit(&select.projection, &mut columns);
    }
    if columns.0.is_empty() && !has_points {
        return;
    }
    name_items(&mut select.projection);
    let grouped = select.group_by.to_string();
    for item in &mut select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let name = fold(alias);
        let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_taken = name.contains('.') || !plain && columns.0.contains(&name);
        if !is_taken || grouped.contains(&name) {
            continue;
        }
        *alias = Ident::with_quote('"', format!("{name}{TAIL}o"));
        for by in order.iter_mut() {
            if matches!(&by.expr, Expr::Identifier(ident) if fold(ident) == name) {
                by.expr = Expr::Identifier(alias.clone());
            }
        }
    }
}

/// FETCH FIRST becomes LIMIT; row locks are the engine's business and are dropped here.
///
/// Errors: those of [`crate::locking::settle`].
fn clauses(query: &mut Query) -> Result<()> {
    let mut entries = query.with.iter().flat_map(|with| &with.cte_tables);
    let writes = |body: &SetExpr| {
        matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
    };
    if entries.any(|cte| writes(&cte.query.body)) {
        let message = "WITH clause containing a data-modifying statement must be at the top level";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    crate::locking::settle(query)?;
    if let Some(fetch) = query.fetch.take() {
        let count = fetch.quantity.unwrap_or_else(|| number("1"));
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit, .. }) => *limit = Some(count),
            clause => {
                *clause = Some(LimitClause::LimitOffset {
                    limit: Some(count),
                    offset: None,
                    limit_by: Vec::new(),
                });
            }
        }
    }
    Ok(())
}

/// The stars of a list.
struct Wildcards {
    /// Whether `*` is among them.
    all: bool,
    /// Last parts of the names before the other ones.
    qualifiers: Vec<String>,
}

impl Wildcards {
    fn of(items: &[SelectItem]) -> Self {
        let mut wildcards = Wildcards { all: false, qualifiers: Vec::new() };
        for item in items {
            match item {
                SelectItem::Wildcard(_) => wildcards.all = true,
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => match name.0.last().and_then(ObjectNamePart::as_ident) {
                    Some(last) => wildcards.qualifiers.push(fold(last)),
                    None => wildcards.all = true,
                },
                SelectItem::QualifiedWildcard(..) => wildcards.all = true,
                _ => {}
            }
        }
        wildcards
    }

    /// Whether a star may stand for a column with the name of the unnamed item `expr`, so that the
    /// name would be there twice. A column of a table whose star is not there is another one.
    fn may_repeat(&self, expr: &Expr) -> bool {
        match expr {
            Expr::CompoundIdentifier(path) if !self.all => match path.as_slice() {
                [.., table, _] => self.qualifiers.contains(&fold(table)),
                _ => !self.qualifiers.is_empty(),
            },
            _ => self.all || !self.qualifiers.is_empty(),
        }
    }
}

/// Gives every unnamed item PostgreSQL's name and makes all names of the list distinct.
fn name_items(items: &mut [SelectItem]) {
    let wildcards = Wildcards::of(items);
    let mut taken: HashSet<String> = HashSet::new();
    let mut repeats = 0;
    let mut unique = |name: String, force: bool| {
        if !force && taken.insert(name.clone()) {
            return name;
        }
        repeats += 1;
        repeated_name(&name, repeats)
    };
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let name = figure(expr).unwrap_or_else(|| "?column?".to_owned());
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                let given = unique(name.clone(), wildcards.may_repeat(expr));
                if !plain || given != name {
                    let expr = std::mem::replace(expr, number("0"));
                    *item = SelectItem::ExprWithAlias { expr, alias: quoted(given) };
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let given = unique(fold(alias), false);
                *alias = Ident { value: given, quote_style: Some('"'), span: alias.span };
            }
            _ => {}
        }
    }
}

/// The name of an item's column in the result; `None` for `*`.
pub fn shown_item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => {
            Some(figure(expr).unwrap_or_else(|| "?column?".to_owned()))
        }
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    }
}

/// The name PostgreSQL gives to an unnamed result column; `None` is `?column?`.
fn figure(expr: &Expr) -> Option<String> {
    figured(expr).map(|(name, _)| name)
}

/// A name for a column, and whether it is *weak*: that of a type or of CASE, which those of casts and
/// cases around it replace.
///
/// Source: PostgreSQL's `FigureColname`, which counts strengths.
fn figured(expr: &Expr) -> Option<(String, bool)> {
    let strong = |name: String| Some((name, false));
    let name = match expr {
        Expr::Identifier(ident) => return strong(fold(ident)),
        Expr::CompoundIdentifier(parts) => return parts.last().map(fold).and_then(strong),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => return figured(inner),
        // The last field that is named; subscripts have no name.
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(Expr::Identifier(field)) => Some(fold(field)),
                _ => None,
            });
            return field.map_or_else(|| figured(root), strong);
        }
        Expr::Cast { expr: inner, data_type, .. } => {
            let strong = figured(inner).filter(|(_, weak)| !weak);
            return strong.or_else(|| Some((type_name(data_type), true)));
        }
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(ObjectNamePart::as_ident);
            return name.map(fold).and_then(strong);
        }
        Expr::Case { else_result, .. } => {
            let strong = else_result.as_deref().and_then(figured).filter(|(_, weak)| !weak);
            return strong.or_else(|| Some(("case".to_owned(), true)));
        }
        Expr::Subquery(query) => return first_name(query).and_then(strong),
        Expr::TypedString(typed) => return Some((type_name(&typed.data_type), true)),
        Expr::Interval(_) => return Some(("interval".to_owned(), true)),
        Expr::Exists { negated: false, .. } => "exists",
        Expr::Extract { .. } => "extract",
        Expr::Position { .. } => "position",
        Expr::Substring { shorthand: true, .. } => "substr",
        Expr::Substring { .. } => "substring",
        Expr::Overlay { .. } => "overlay",
        Expr::Ceil { .. } => "ceil",
        Expr::Floor { .. } => "floor",
        Expr::AtTimeZone { .. } => "timezone",
        Expr::Array(_) => "array",
        Expr::Tuple(_) => "row",
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        },
        _ => return None,
    };
    strong(name.to_owned())
}

fn first_name(query: &Query) -> Option<String> {
    let mut body = query.body.as_ref();
    loop {
        match body {
            SetExpr::Select(select) => {
                return match select.projection.first()? {
                    SelectItem::UnnamedExpr(expr) => figure(expr),
                    item => shown_item_name(item),
                };
            }
            SetExpr::Query(query) => body = query.body.as_ref(),
            SetExpr::SetOperation { left, .. } => body = left.as_ref(),
            SetExpr::Values(_) => return Some("column1".to_owned()),
            _ => return None,
        }
    }
}

/// A type's name in `pg_type`, as casts of constants are named.
fn type_name(ty: &DataType) -> String {
    if let DataType::Array(
        ast::ArrayElemTypeDef::SquareBracket(item, _) | ast::ArrayElemTypeDef::AngleBracket(item),
    ) = ty
    {
        return type_name(item);
    }
    match halcyon_sql::type_names::cast_type(ty) {
        Ok(ty) => halcyon_sql::type_names::pg_type_name(ty).into_owned(),
        Err(_) => ty.to_string().to_lowercase(),
    }
}

/// `FROM generate_series(1, 3) AS g` names the table and its column `g`.
fn name_function_columns(factor: &mut TableFactor) {
    let (name, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias, .. }
        | TableFactor::Function { name, alias, .. } => (name, alias),
        _ => return,
    };
    let Some(own) = name.0.last().and_then(ObjectNamePart::as_ident) else { return };
    if !matches!(fold(own).as_str(), "generate_series" | "range") {
        return;
    }
    let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
    match alias {
        Some(alias) if alias.columns.is_empty() => alias.columns = vec![column(&alias.name)],
        Some(_) => {}
        None => {
            let name = quoted(fold(own));
            *alias =
                Some(TableAlias { explicit: true, columns: vec![column(&name)], name, at: None });
        }
    }
}

/// `unnest(a, b) WITH ORDINALITY` as `unnest(a, b, __ordinals(a, b))`: DataFusion's planner passes over
/// the words. Errors: 0A000 for other functions.
fn number_rows(factor: &mut TableFactor) -> Result<()> {
    let refused = || {
        Err(SqlError::unsupported("WITH ORDINALITY of this function")
            .hint("Use row_number() OVER () in the SELECT list."))
    };
    unnest_of_function(factor);
    rows_of_array(factor);
    if let TableFactor::UNNEST { array_exprs, .. } = factor {
        tell_apart(array_exprs);
    }
    match factor {
        TableFactor::UNNEST { with_ordinality, array_exprs, alias, .. } if *with_ordinality => {
            *with_ordinality = false;
            let column =
                |name: &str| TableAliasColumnDef { name: quoted(name.into()), data_type: None };
            let alias = alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                columns: Vec::new(),
                name: quoted("unnest".into()),
                at: None,
            });
            while alias.columns.len() < array_exprs.len() {
                let own = match (array_exprs.len(), alias.columns.len()) {
                    (1, _) => alias.name.value.clone(),
                    (_, 0) => "unnest".to_owned(),
                    (_, number) => repeated_name("unnest", number),
                };
                alias.columns.push(column(&own));
            }
            if alias.columns.len() == array_exprs.len() {
                alias.columns.push(column("ordinality"));
            }
            let ordinals = call(ORDINALS, array_exprs.clone());
            array_exprs.push(ordinals);
            Ok(())
        }
        // Without names, all columns have that of the function.
        TableFactor::UNNEST { array_exprs, alias, .. }
            if alias
                .as_ref()
                .is_none_or(|alias| array_exprs.len() > 1 && alias.columns.is_empty()) =>
        {
            let name = |number| match number {
                0 => "unnest".to_owned(),
                number => repeated_name("unnest", number),
            };
            let column =
                |number| TableAliasColumnDef { name: quoted(name(number)), data_type: None };
            let columns = (0..array_exprs.len()).map(column).collect();
            let alias = alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                columns: Vec::new(),
                name: quoted(name(0)),
                at: None,
            });
            alias.columns = columns;
            Ok(())
        }
        // `unnest(a) AS x` names the table and its column `x`.
        TableFactor::UNNEST { array_exprs, alias: Some(alias), .. }
            if array_exprs.len() == 1 && alias.columns.is_empty() =>
        {
            let name = alias.name.clone();
            alias.columns.push(TableAliasColumnDef { name, data_type: None });
            Ok(())
        }
        TableFactor::Table { with_ordinality: true, .. }
        | TableFactor::Function { with_ordinality: true, .. } => refused(),
        _ => Ok(()),
    }
}

/// Makes lists differ of which DataFusion would make columns of one name: it passes over casts.
fn tell_apart(lists: &mut [Expr]) {
    struct Bare;
    impl VisitorMut for Bare {
        type Break = std::convert::Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
            if let Expr::Cast { expr: inner, .. } = expr {
                *expr = std::mem::replace(inner, number("0"));
            }
            ControlFlow::Continue(())
        }
    }
    let mut seen = HashSet::new();
    for list in lists {
        let mut bare = list.clone();
        let ControlFlow::Continue(()) = VisitMut::visit(&mut bare, &mut Bare);
        let mut shown = bare.to_string();
        while !seen.insert(shown.clone()) {
            *list = call("coalesce", vec![std::mem::replace(list, number("0"))]);
            shown = format!("coalesce({shown})");
        }
    }
}

/// `LATERAL unnest(a)` as `unnest(a)`, which sees what stands before it in any case.
fn unnest_of_function(factor: &mut TableFactor) {
    let TableFactor::Function { name, args, alias, with_ordinality, .. } = factor else { return };
    let is_unnest =
        name.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|own| fold(own) == "unnest");
    let array = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let Some(array_exprs) = args.iter().map(array).collect::<Option<Vec<_>>>() else { return };
    if is_unnest {
        *factor = TableFactor::UNNEST {
            alias: alias.take(),
            array_exprs,
            with_offset: false,
            with_offset_alias: None,
            with_ordinality: *with_ordinality,
        };
    }
}

/// Whether a type's name is that of paths into documents, whose values are texts here.
fn is_jsonpath(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.is_some_and(|name| fold(name) == "jsonpath")
}

/// The function that gives as an array what a function of many rows gives.
fn array_of_rows(function: &str) -> Option<&'static str> {
    Some(match function {
        "regexp_matches" => "regexp_match_lists",
        "regexp_split_to_table" => "regexp_split_to_array",
        "string_to_table" => "string_to_array",
        "generate_subscripts" => "generate_subscripts",
        "json_array_elements" => "json_array_elements\u{1}rows",
        "json_array_elements_text" => "json_array_elements_text\u{1}rows",
        "json_object_keys" => "json_object_keys\u{1}rows",
        "jsonb_array_elements" => "jsonb_array_elements\u{1}rows",
        "jsonb_array_elements_text" => "jsonb_array_elements_text\u{1}rows",
        "jsonb_object_keys" => "jsonb_object_keys\u{1}rows",
        "jsonb_path_query" => "jsonb_path_query\u{1}rows",
        _ => return None,
    })
}

/// The name that the one column of a function of many rows has, if the table's alias does not name it.
pub fn column_of_rows(function: &str) -> Option<&'static str> {
    matches!(
        function,
        "json_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements"
            | "jsonb_array_elements_text"
    )
    .then_some("value")
}

/// `FROM string_to_table(…)` as `FROM unnest(string_to_array(…))`.
fn rows_of_array(factor: &mut TableFactor) {
    let (name, args, alias, with_ordinality) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, &*args, alias, *with_ordinality)
        }
        _ => return,
    };
    let Some(own) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold) else { return };
    let arrays: Vec<String> = match (array_of_rows(&own), own.as_str()) {
        (Some(array), _) => vec![array.to_owned()],
        (None, "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text") => {
            vec![format!("{own}{TAIL}key"), format!("{own}{TAIL}value")]
        }
        _ => return,
    };
    let of_arguments = |array: &String| {
        let mut function = call(array, Vec::new());
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut function
        {
            list.args = args.clone();
        }
        function
    };
    let array_exprs: Vec<Expr> = arrays.iter().map(of_arguments).collect();
    let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
    let own_name = column_of_rows(&own);
    let mut alias = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        columns: Vec::new(),
        name: quoted(own),
        at: None,
    });
    let names: &[&str] = match array_exprs.len() {
        1 => &[],
        _ => &["key", "value"],
    };
    for name in names.iter().skip(alias.columns.len()) {
        alias.columns.push(column(&quoted((*name).to_owned())));
    }
    if alias.columns.is_empty() {
        alias.columns.push(match own_name {
            Some(name) => column(&quoted(name.to_owned())),
            None => column(&alias.name),
        });
    }
    *factor = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
}

/// Name of the function from lists to the list 1, 2, … of the longest one's length.
pub const ORDINALS: &str = "__ordinals";

/// `t TABLESAMPLE BERNOULLI (p)`: each row with probability p %. SYSTEM takes blocks of rows in
/// PostgreSQL, of whatever size; here a block is a row.
fn sample(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { sample, alias, name, .. } = factor else { return Ok(()) };
    let Some(TableSampleKind::BeforeTableAlias(clause) | TableSampleKind::AfterTableAlias(clause)) =
        sample.take()
    else {
        return Ok(());
    };
    if clause.seed.is_some() || clause.bucket.is_some() || clause.offset.is_some() {
        return Err(SqlError::unsupported("TABLESAMPLE … REPEATABLE"));
    }
    let (Some(TableSampleMethod::Bernoulli | TableSampleMethod::System), Some(quantity)) =
        (clause.name, clause.quantity)
    else {
        return Err(SqlError::unsupported("this method of TABLESAMPLE")
            .hint("There are BERNOULLI (percent) and SYSTEM (percent)."));
    };
    let percent: Option<f64> = quantity.value.to_string().parse().ok();
    if percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(SqlError::new(
            SqlState::INVALID_TABLESAMPLE_ARGUMENT,
            "sample percentage must be between 0 and 100",
        ));
    }
    let named = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
    let alias = alias.take().or_else(|| {
        named.map(|name| TableAlias { explicit: true, name, columns: Vec::new(), at: None })
    });
    let mut query = halcyon_sql::parse::parse_query("SELECT * FROM t WHERE random() * 100 < 0")?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(Expr::BinaryOp { right, .. }) = &mut select.selection
    {
        **right = quantity.value;
        select.from[0].relation = factor.clone();
    }
    *factor =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias, sample: None };
    Ok(())
}

fn operator(expr: &mut Expr) -> Result<()> {
    // Types of moments have microseconds; one with fewer digits is a rounding.
    if let Expr::Cast { data_type, .. } = expr
        && let Some(places) = halcyon_sql::type_names::take_places(data_type)
    {
        let whole = std::mem::replace(expr, number("0"));
        *expr = call("seconds_rounded", vec![whole, number(&places.to_string())]);
        return Ok(());
    }
    let old = match expr {
        Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::AtTimeZone { .. }
        | Expr::UnaryOp { .. }
        | Expr::Extract { .. }
        | Expr::Interval(_)
        | Expr::BinaryOp { .. }
        | Expr::Substring { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Array(_)
        | Expr::Collate { .. }
        | Expr::Function(_)
        | Expr::IsNormalized { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Value(_)
        | Expr::InSubquery { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::InList { .. } => std::mem::replace(expr, number("0")),
        Expr::Cast { data_type: DataType::Custom(name, _), .. } if is_jsonpath(name) => {
            std::mem::replace(expr, number("0"))
        }
        _ => return Ok(()),
    };
    *expr = match old {
        old @ (Expr::Like { .. } | Expr::ILike { .. }) => pattern_match(old)?,
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let mut args = vec![*pattern];
            args.extend(escape_char.map(Expr::Value));
            let op = if negated {
                BinaryOperator::PGRegexNotMatch
            } else {
                BinaryOperator::PGRegexMatch
            };
            binary(*expr, op, call("similar_to_escape", args))
        }
        Expr::AtTimeZone { timestamp, time_zone } => call("timezone", vec![*time_zone, *timestamp]),
        // A number with fractions: as an integer, which DataFusion gives, it would divide otherwise.
        Expr::Extract { field, syntax, expr } => {
            cast(part(field, syntax, expr), DataType::Numeric(ExactNumberInfo::None))
        }
        Expr::Interval(interval) => interval_constant(interval)?,
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::PGSquareRoot => call("sqrt", vec![*expr]),
            UnaryOperator::PGCubeRoot => call("cbrt", vec![*expr]),
            UnaryOperator::PGAbs if is_quoted(&expr) => {
                call("abs", vec![cast(*expr, DataType::DoublePrecision)])
            }
            UnaryOperator::PGAbs => call("abs", vec![*expr]),
            UnaryOperator::BitwiseNot => call("bitwise_not", vec![*expr]),
            op => sign(op, *expr)?,
        },
        Expr::Substring {
            expr,
            substring_from: Some(pattern),
            substring_for: None,
            shorthand: false,
            ..
        } if is_quoted(&pattern) => call("substring_by_pattern", vec![*expr, *pattern]),
        Expr::Substring {
            expr,
            substring_from: Some(pattern),
            substring_for: Some(escape),
            shorthand: false,
            ..
        } if is_quoted(&pattern) && is_quoted(&escape) => {
            crate::similar::parts(*expr, *pattern, *escape)
        }
        // Of `substr` there is none by pattern.
        Expr::Substring { expr, substring_from, substring_for, special, shorthand: true } => {
            let whole = |arg: Box<Expr>| match is_quoted(&arg) {
                true => Box::new(cast(*arg, DataType::Integer(None))),
                false => arg,
            };
            Expr::Substring {
                expr,
                substring_from: substring_from.map(whole),
                substring_for: substring_for.map(whole),
                special,
                shorthand: true,
            }
        }
        // DataFusion's planner looks up columns within brackets in no outer query.
        Expr::Array(array) if array.elem.iter().any(has_column) => call("make_array", array.elem),
        // Of casts there are only those to `jsonpath`.
        Expr::Cast { expr, .. } => call("jsonpath", vec![*expr]),
        Expr::Collate { expr, collation } => collate(*expr, &collation),
        Expr::InList { expr, list, negated } => in_list(*expr, list, negated)?,
        Expr::InSubquery { expr, subquery, negated } => match row_of(&expr) {
            Some(row) => {
                let subquery = Box::new(query_of_rows(*subquery, &row)?);
                Expr::InSubquery { expr: Box::new(call(ROW, row)), subquery, negated }
            }
            None => Expr::InSubquery { expr, subquery, negated },
        },
        Expr::AnyOp { left, compare_op, right, .. }
            if let Some(list) = membership(&left, &compare_op, false, &right)? =>
        {
            list
        }
        Expr::AllOp { left, compare_op, right }
            if let Some(list) = membership(&left, &compare_op, true, &right)? =>
        {
            list
        }
        Expr::AnyOp { left, compare_op, right, is_some } => {
            let (left, right) = compared_with_rows(left, right)?;
            match compare_op {
                // By name, so that a constant in quotes beside an array of any type takes its elements' type.
                BinaryOperator::Eq if !matches!(*right, Expr::Subquery(_)) => {
                    call("array_has", vec![*right, *left])
                }
                op if is_array(&right) => {
                    call("array\u{1}any", vec![*right, *left, string(&op.to_string())])
                }
                compare_op => Expr::AnyOp { left, compare_op, right, is_some },
            }
        }
        Expr::AllOp { left, compare_op, right } => {
            let (left, right) = compared_with_rows(left, right)?;
            match (is_array(&right), &compare_op) {
                (true, BinaryOperator::NotEq) => {
                    let is_in = Box::new(call("array_has", vec![*right, *left]));
                    Expr::UnaryOp { op: UnaryOperator::Not, expr: is_in }
                }
                (true, op) => {
                    let op = string(&op.to_string());
                    call("array\u{1}all", vec![*right, *left, op])
                }
                _ => Expr::AllOp { left, compare_op, right },
            }
        }
        Expr::BinaryOp { left, op, right } => binary_operator(*left, op, *right)?,
        Expr::Ceil { expr, field } if is_quoted(&expr) => {
            Expr::Ceil { expr: Box::new(cast(*expr, DataType::DoublePrecision)), field }
        }
        Expr::Floor { expr, field } if is_quoted(&expr) => {
            Expr::Floor { expr: Box::new(cast(*expr, DataType::DoublePrecision)), field }
        }
        Expr::Function(function) if is_misread(&function) => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \")\""));
        }
        // DataFusion would count rows.
        Expr::Function(function) if counts_nothing(&function) => {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Expr::Function(function) => match crate::standard_json::constructor(&function) {
            Some(made) => made,
            None => match crate::hypothetical::place(&function)? {
                Some(place) => place,
                None => match arguments::spread(&function)? {
                    Some(call) => call,
                    None => renamed(function)?,
                },
            },
        },
        Expr::IsNormalized { expr, form, negated } => {
            let form = form.map_or_else(|| "NFC".to_owned(), |form| form.to_string());
            let is = call("is_normalized", vec![*expr, string(&form)]);
            match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(is) },
                false => is,
            }
        }
        Expr::IsNull(inner) => each_field(*inner, Expr::IsNull),
        Expr::IsNotNull(inner) => each_field(*inner, Expr::IsNotNull),
        Expr::Value(value) => constant(value),
        other => other,
    };
    Ok(())
}

/// LIKE or ILIKE with its escape character, and with ANY or ALL patterns of a list as conditions of one each.
fn pattern_match(old: Expr) -> Result<Expr> {
    let (Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. }) = &old else {
        return Ok(old);
    };
    let (any, pattern) = (*any, pattern.as_ref().clone());
    let with = |pattern: Expr, several: bool| {
        let mut one = old.clone();
        if let Expr::Like { any, pattern: own, escape_char, .. }
        | Expr::ILike { any, pattern: own, escape_char, .. } = &mut one
        {
            *any = several;
            *own = escaped(Box::new(pattern), escape_char.take());
        }
        one
    };
    let one = |pattern| with(pattern, false);
    Ok(match any {
        true => match array_syntax::patterns(&pattern)? {
            Some(patterns) => array_syntax::any_of(patterns, one),
            None if is_array(&pattern) => match_elements("array\u{1}any", pattern, old),
            None => with(pattern, true),
        },
        false => match array_syntax::all_patterns(&pattern)? {
            Some(patterns) => array_syntax::all_of(patterns, one),
            None => match array_syntax::behind_all(&pattern).filter(|array| is_array(array)) {
                Some(array) => match_elements("array\u{1}all", array.clone(), old),
                None => one(pattern),
            },
        },
    })
}

/// LIKE or ILIKE with the elements of an array, as a comparison by the name of its operator.
fn match_elements(function: &str, array: Expr, of: Expr) -> Expr {
    let (op, negated, expr) = match of {
        Expr::Like { negated, expr, .. } => ("~~", negated, expr),
        Expr::ILike { negated, expr, .. } => ("~~*", negated, expr),
        other => return other,
    };
    let op = if negated { format!("!{op}") } else { op.to_owned() };
    call(function, vec![array, *expr, string(&op)])
}

/// Whether what stands behind ANY or ALL is an array.
fn is_array(right: &Expr) -> bool {
    match right {
        Expr::Nested(inner) => is_array(inner),
        right => !matches!(right, Expr::Subquery(_)),
    }
}

fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_parameter(inner),
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        _ => false,
    }
}

/// Whether a column is named within an expression.
fn has_column(expr: &Expr) -> bool {
    struct Column;
    impl ast::Visitor for Column {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    ast::Visit::visit(expr, &mut Column).is_break()
}

/// `+`, `-` or NOT, before a constant in quotes as PostgreSQL reads it there.
///
/// Errors: 42725 for the minus, which several types have.
fn sign(op: UnaryOperator, expr: Expr) -> Result<Expr> {
    let inner = match &expr {
        Expr::Nested(inner) => inner,
        other => other,
    };
    Ok(match op {
        UnaryOperator::Plus if is_quoted(inner) || is_parameter(inner) => {
            cast(expr, DataType::DoublePrecision)
        }
        UnaryOperator::Minus if is_quoted(inner) => return Err(not_unique("- unknown")),
        UnaryOperator::Not if is_quoted(inner) => {
            let expr = Box::new(cast(expr, DataType::Boolean));
            Expr::UnaryOp { op, expr }
        }
        // The planner would put the sign before the first of several fields.
        UnaryOperator::Minus if matches!(inner, Expr::Interval(_)) => {
            Expr::UnaryOp { op, expr: Box::new(nested(expr)) }
        }
        op => Expr::UnaryOp { op, expr: Box::new(expr) },
    })
}

/// 42725: the operands leave several operators to choose from.
pub fn not_unique(operation: &str) -> SqlError {
    SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {operation}"))
        .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")
}

/// An interval written as PostgreSQL writes it, with or without fields behind, in the words that
/// DataFusion's planner reads.
fn interval_constant(interval: ast::Interval) -> Result<Expr> {
    let ast::Interval { value, leading_field, last_field, .. } = &interval;
    if interval.leading_precision.is_some() || interval.fractional_seconds_precision.is_some() {
        return Err(SqlError::unsupported("an INTERVAL with a precision"));
    }
    let text = match value.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text,
            _ => return Ok(Expr::Interval(interval)),
        },
        _ => return Ok(Expr::Interval(interval)),
    };
    let read = |field: &Option<DateTimeField>| match field {
        Some(field) => FieldOfInterval::named(&field.to_string())
            .map(Some)
            .ok_or_else(|| SqlError::unsupported(format!("INTERVAL … {field}"))),
        None => Ok(None),
    };
    let fields = read(leading_field)?.map(|first| Ok::<_, SqlError>((first, read(last_field)?)));
    let parsed = match fields.transpose()? {
        Some((first, last)) => interval::parse_fields(text, first, last.unwrap_or(first))?,
        None => interval::parse(text)?,
    };
    let Interval { months, days, nanos } = parsed;
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let words = format!("{months} months {days} days {sign}{seconds}.{rest:09} seconds");
    Ok(Expr::Interval(ast::Interval {
        value: Box::new(string(&words)),
        leading_field: None,
        last_field: None,
        ..interval
    }))
}

/// Numbers with more digits than NUMERIC has are DOUBLE PRECISION.
fn constant(value: ast::ValueWithSpan) -> Expr {
    let Value::Number(digits, _) = &value.value else { return Expr::Value(value) };
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.parse().unwrap_or(i64::from(i32::MAX)).clamp(-(1 << 32), 1 << 32);
    let before = whole.trim_start_matches('0').len() as i64 + exponent.max(0);
    let after = (places.len() as i64 - exponent).max(0);
    if before.max(0) + after <= 38 {
        return Expr::Value(value);
    }
    cast(string(digits), DataType::DoublePrecision)
}

/// `row IS NULL` and `row IS NOT NULL` are true if they are of every field.
fn each_field(expr: Expr, condition: fn(Box<Expr>) -> Expr) -> Expr {
    let Some(fields) = row_of(&expr) else { return condition(Box::new(expr)) };
    let each = fields.into_iter().map(|field| condition(Box::new(field)));
    let all = each.reduce(|a, b| binary(a, BinaryOperator::And, b));
    nested(all.unwrap_or_else(|| Expr::Value(Value::Boolean(true).with_empty_span())))
}

/// Whether the parser took what is no call: `current_time` with anything but a number of digits.
fn is_misread(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_number = |arg: &FunctionArg| {
        matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))
            if matches!(value.value, Value::Number(..)))
    };
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    match (name.as_deref(), list.args.as_slice()) {
        (_, []) => false,
        (Some("current_timestamp" | "localtimestamp" | "current_time" | "localtime"), args) => {
            args.len() > 1 || !args.iter().all(is_number)
        }
        (Some("current_date" | "current_user" | "session_user" | "current_role"), _) => true,
        _ => false,
    }
}

/// `count()`.
fn counts_nothing(function: &Function) -> bool {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return false };
    let FunctionArguments::List(list) = &function.args else { return false };
    list.args.is_empty() && fold(name) == "count"
}

/// Functions that are an operator, or have another name, in DataFusion.
fn renamed(mut function: Function) -> Result<Expr> {
    if let FunctionArguments::List(list) = &mut function.args {
        arguments::in_order(&function.name, &mut list.args);
    }
    quoted_arguments::typed(&mut function);
    let name = function.name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
    let arguments = match &function.args {
        FunctionArguments::List(list) => list.args.len(),
        _ => 0,
    };
    Ok(match (name.as_deref(), arguments) {
        (Some(name), 2) if arguments::is_operator(name) && plain_arguments(&function) => {
            let operation = arguments::operator_of(name, operands(function));
            let (left, op, right) = operation.expect("an operator of two operands");
            nested(binary_operator(left, op, right)?)
        }
        (
            Some(name @ ("localtime" | "localtimestamp" | "current_time" | "current_timestamp")),
            1,
        ) if plain_arguments(&function) => {
            let digits = operands(function).pop().expect("there is one");
            arguments::rounded_clock(name, digits)
        }
        (Some("normalize"), 1..) => {
            arguments::word_as_text(&mut function);
            Expr::Function(function)
        }
        (Some("mod"), 2) => {
            let mut operands = operands(function).into_iter();
            let (a, b) = (operands.next(), operands.next());
            let operand = |expr: Option<Expr>| nested(expr.unwrap_or_else(null));
            nested(binary(operand(a), BinaryOperator::Modulo, operand(b)))
        }
        (Some("gen_random_uuid" | "uuid_generate_v4"), 0) => {
            cast(call("uuid", Vec::new()), DataType::Uuid)
        }
        (Some("date_part"), 2) => part_of_moment(function),
        // In FROM a function is no expression, so this is one of a list that it makes rows of.
        (Some("generate_series"), 2 | 3) => call("unnest", vec![Expr::Function(function)]),
        (
            Some(
                name @ ("json_array_elements"
                | "json_array_elements_text"
                | "json_object_keys"
                | "jsonb_array_elements"
                | "jsonb_array_elements_text"
                | "jsonb_object_keys"),
            ),
            1,
        )
        | (
            Some(
                name @ ("jsonb_path_query"
                | "regexp_matches"
                | "regexp_split_to_table"
                | "string_to_table"),
            ),
            2..,
        ) => {
            let array = array_of_rows(name).expect("a function of rows");
            function.name = ObjectName::from(vec![quoted(array.to_owned())]);
            call("unnest", vec![Expr::Function(function)])
        }
        (Some(name), 1) if row_fields::OF_PAIRS.contains(&name) => {
            row_fields::row_of_pair(&function)
        }
        (Some("json_agg"), 1) => gathered(function, "json\u{1}value", "json\u{1}values"),
        (Some("jsonb_agg"), 1) => gathered(function, "to_jsonb", "jsonb\u{1}values"),
        (Some("json_object_agg"), 2) => gathered(function, "json\u{1}pair", "json\u{1}pairs"),
        (Some("jsonb_object_agg"), 2) => gathered(function, "jsonb\u{1}pair", "jsonb\u{1}pairs"),
        (Some("ceiling"), 1) => {
            function.name = ObjectName::from(vec![quoted("ceil".to_owned())]);
            Expr::Function(function)
        }
        (Some("width_bucket"), 2) => {
            function.name = ObjectName::from(vec![quoted("bucket_of_thresholds".to_owned())]);
            Expr::Function(function)
        }
        (Some("to_timestamp"), 2) => {
            function.name = ObjectName::from(vec![quoted("to_timestamp_by_pattern".to_owned())]);
            Expr::Function(function)
        }
        (Some("substring"), 2) if has_pattern(&function) => {
            function.name = ObjectName::from(vec![quoted("substring_by_pattern".to_owned())]);
            Expr::Function(function)
        }
        (Some("make_interval"), _) => interval_of_fields(function),
        // The days up to today.
        (Some("age"), 1) if plain_arguments(&function) => {
            let mut arguments = operands(function);
            arguments.insert(0, call("current_date", Vec::new()));
            call("age", arguments)
        }
        (Some("date_trunc"), 3) if plain_arguments(&function) => {
            let mut arguments = operands(function);
            let zone = arguments.pop().expect("three arguments");
            let moment = arguments.pop().expect("two arguments");
            arguments.push(call("timezone", vec![zone.clone(), moment]));
            call("timezone", vec![zone, call("date_trunc", arguments)])
        }
        (Some(name @ ("date_add" | "date_subtract")), 2) if plain_arguments(&function) => {
            let op = match name {
                "date_add" => BinaryOperator::Plus,
                _ => BinaryOperator::Minus,
            };
            let mut operands = operands(function).into_iter();
            let mut next = || nested(operands.next().unwrap_or_else(null));
            let left = next();
            nested(binary(left, op, next()))
        }
        (Some("every"), 1) => {
            function.name = ObjectName::from(vec![quoted("bool_and".to_owned())]);
            Expr::Function(function)
        }
        (Some(name), 1) if CASTS.contains(&name) && plain_arguments(&function) => {
            let ty = ObjectName::from(vec![quoted(name.to_owned())]);
            let mut argument = operands(function).pop().expect("there is one");
            // Of the functions of this name the one of moments with a zone is preferred.
            if name == "date" && is_parameter(&argument) {
                let moment = ObjectName::from(vec![quoted("timestamptz".to_owned())]);
                argument = cast(argument, DataType::Custom(moment, Vec::new()));
            }
            cast(argument, DataType::Custom(ty, Vec::new()))
        }
        _ => Expr::Function(function),
    })
}

/// An aggregate of documents: `made(array_agg(each(arguments) …) …)`, with all that stands behind the
/// arguments.
fn gathered(mut function: Function, each: &str, made: &str) -> Expr {
    if let FunctionArguments::List(list) = &mut function.args {
        let args = std::mem::take(&mut list.args);
        let mut one = call(each, Vec::new());
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut one {
            list.args = args;
        }
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(one))];
    }
    function.name = ObjectName::from(vec![quoted("array_agg".to_owned())]);
    call(made, vec![Expr::Function(function)])
}

/// Whether the second argument is a constant in quotes, which `substring` takes for a pattern.
fn has_pattern(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    matches!(&list.args[..],
        [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))] if is_quoted(pattern))
}

/// `make_interval` with all its arguments in their order; those left out are 0.
fn interval_of_fields(mut function: Function) -> Expr {
    const NAMES: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let FunctionArguments::List(list) = &mut function.args else {
        return Expr::Function(function);
    };
    let zero = || FunctionArg::Unnamed(FunctionArgExpr::Expr(number("0")));
    let mut fields: Vec<FunctionArg> = NAMES.iter().map(|_| zero()).collect();
    for (at, arg) in list.args.iter().enumerate() {
        let (place, value) = match arg {
            FunctionArg::Named { name, arg, .. } => {
                (NAMES.iter().position(|own| *own == fold(name)), arg)
            }
            FunctionArg::Unnamed(arg) => (Some(at), arg),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => {
                (NAMES.iter().position(|own| *own == fold(name)), arg)
            }
            FunctionArg::ExprNamed { .. } => return Expr::Function(function),
        };
        let Some(field) = place.and_then(|place| fields.get_mut(place)) else {
            return Expr::Function(function);
        };
        *field = FunctionArg::Unnamed(value.clone());
    }
    list.args = fields;
    Expr::Function(function)
}

/// `date_part('field', moment)`: EXTRACT as DOUBLE PRECISION.
fn part_of_moment(function: Function) -> Expr {
    let name = match &function.args {
        FunctionArguments::List(list) => match list.args.first() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) => {
                match &value.value {
                    Value::SingleQuotedString(name) => Some(name.to_lowercase()),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    };
    let (Some(name), true) = (name, plain_arguments(&function)) else {
        return Expr::Function(function);
    };
    let moment = operands(function).pop().expect("two arguments");
    let field = DateTimeField::Custom(Ident::new(format!("{name}{OF_FUNCTION}")));
    let extracted = part(field, ast::ExtractSyntax::From, Box::new(moment));
    cast(extracted, DataType::DoublePrecision)
}

/// Types whose name is a function as well: `int8(x)` is a cast.
const CASTS: &[&str] = &[
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "bpchar",
    "bytea",
    "json",
    "jsonb",
    "uuid",
    "inet",
    "cidr",
    "macaddr",
];

fn plain_arguments(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    function.over.is_none()
        && function.filter.is_none()
        && (list.args.iter())
            .all(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Expr(_))))
}

fn operands(function: Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = function.args else { return Vec::new() };
    list.args
        .into_iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}

fn null() -> Expr {
    Expr::Value(Value::Null.with_empty_span())
}

fn binary_operator(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr> {
    Ok(match op {
        BinaryOperator::PGExp => call("power", vec![left, right]),
        BinaryOperator::PGStartsWith => call("starts_with", vec![left, right]),
        BinaryOperator::Overlaps => overlap(&left, &right)?,
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => match (row_of(&left), row_of(&right)) {
            (Some(a), Some(b)) => compare_rows(&a, &op, &b)?,
            (Some(row), None) if let Some(query) = subquery_of(&right) => {
                compare_rows(&row, &op, &fields_of(query, &row)?)?
            }
            (None, Some(row)) if let Some(query) = subquery_of(&left) => {
                compare_rows(&fields_of(query, &row)?, &op, &row)?
            }
            _ => binary(left, op, right),
        },
        op => binary(left, op, right),
    })
}

/// `(start, end) OVERLAPS (start, end)`. An end may be an interval in sight; the ends may be swapped.
fn overlap(left: &Expr, right: &Expr) -> Result<Expr> {
    let period = |row: &Expr| -> Result<(Expr, Expr)> {
        let Some([start, end]) = row_of(row).and_then(|row| <[Expr; 2]>::try_from(row).ok()) else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "wrong number of parameters on an operand of OVERLAPS expression",
            ));
        };
        let is_span = matches!(
            &end,
            Expr::Interval(_) | Expr::Cast { data_type: DataType::Interval { .. }, .. }
        );
        let end = match is_span {
            true => nested(binary(start.clone(), BinaryOperator::Plus, end)),
            false => end,
        };
        let ends = || vec![start.clone(), end.clone()];
        Ok((call("least", ends()), call("greatest", ends())))
    };
    let ((from, to), (other_from, other_to)) = (period(left)?, period(right)?);
    let less = |a: &Expr, b: &Expr| binary(a.clone(), BinaryOperator::Lt, b.clone());
    let within = |from: &Expr, other: &Expr, to: &Expr| {
        nested(binary(less(from, other), BinaryOperator::And, less(other, to)))
    };
    let same = binary(from.clone(), BinaryOperator::Eq, other_from.clone());
    let first = within(&from, &other_from, &to);
    let second = within(&other_from, &from, &other_to);
    let either = binary(first, BinaryOperator::Or, second);
    Ok(nested(binary(same, BinaryOperator::Or, either)))
}

/// EXTRACT of a field that has a fraction is ours; whole fields are DataFusion's.
fn part(field: DateTimeField, syntax: ast::ExtractSyntax, expr: Box<Expr>) -> Expr {
    let name = field.to_string().to_lowercase();
    let name = name.trim_matches(['\'', '"']);
    match name.trim_end_matches(OF_FUNCTION) {
        "second" | "seconds" | "millisecond" | "milliseconds" | "microsecond" | "microseconds"
        | "epoch" | "julian" => call("extract_fraction", vec![string(name), *expr]),
        "century" | "decade" | "millennium" | "isoyear" | "isodow" | "dow" | "doy" | "timezone"
        | "timezone_hour" | "timezone_minute" => call("extract_whole", vec![string(name), *expr]),
        _ => Expr::Extract { field, syntax, expr },
    }
}

fn escaped(pattern: Box<Expr>, escape: Option<ast::ValueWithSpan>) -> Box<Expr> {
    match escape {
        Some(escape) => Box::new(call("like_escape", vec![*pattern, Expr::Value(escape)])),
        None => pattern,
    }
}

/// An expression under COLLATE: a call of [`COLLATE`].
fn collate(expr: Expr, collation: &ObjectName) -> Expr {
    let parts = collation.0.iter().filter_map(ObjectNamePart::as_ident);
    let name: Vec<String> = parts.map(fold).collect();
    call(COLLATE, vec![expr, string(&name.join("\u{1f}"))])
}

/// The fields of `(a, b)` or `ROW(a, b)`.
fn row_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(fields) if fields.len() > 1 => Some(fields.clone()),
        Expr::Nested(inner) => row_of(inner),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            match &function.args {
                FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                        _ => None,
                    })
                    .collect(),
                _ => None,
            }
        }
        _ => None,
    }
}

fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery_of(inner),
        _ => None,
    }
}

/// The sides of a comparison with ANY or ALL: a row and a subquery of rows, or as they were.
fn compared_with_rows(left: Box<Expr>, right: Box<Expr>) -> Result<(Box<Expr>, Box<Expr>)> {
    match (row_of(&left), subquery_of(&right)) {
        (Some(row), Some(query)) => {
            let query = query_of_rows(query.clone(), &row)?;
            Ok((Box::new(call(ROW, row)), Box::new(Expr::Subquery(Box::new(query)))))
        }
        _ => Ok((left, right)),
    }
}

/// A query whose columns are made one: a row that is compared with `row`.
fn query_of_rows(query: Query, row: &[Expr]) -> Result<Query> {
    over_columns(query, row.len(), |fields| call(ROW, fields))
}

/// The columns of a query of one row that is compared with `row`, each by a query of its own.
fn fields_of(query: &Query, row: &[Expr]) -> Result<Vec<Expr>> {
    let field = |at: usize| over_columns(query.clone(), row.len(), |fields| fields[at].clone());
    (0..row.len()).map(|at| Ok(Expr::Subquery(Box::new(field(at)?)))).collect()
}

/// `SELECT item FROM (query) AS row (…)`, where `item` is made of its columns.
fn over_columns(query: Query, columns: usize, item: impl Fn(Vec<Expr>) -> Expr) -> Result<Query> {
    let name = |at: usize| quoted(format!("field{TAIL}{at}"));
    let own = match query.body.as_ref() {
        SetExpr::Select(select) if select.projection.iter().all(is_one_column) => {
            Some(select.projection.len())
        }
        _ => None,
    };
    if let Some(own) = own.filter(|own| *own != columns) {
        let which = if own > columns { "many" } else { "few" };
        let message = format!("subquery has too {which} columns");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let alias = TableAlias {
        explicit: true,
        name: quoted(format!("row{TAIL}")),
        columns: (0..columns)
            .map(|at| TableAliasColumnDef { name: name(at), data_type: None })
            .collect(),
        at: None,
    };
    let mut over = halcyon_sql::parse::parse_query("SELECT 1 AS value FROM t")?;
    if let SetExpr::Select(select) = over.body.as_mut() {
        let fields = (0..columns).map(|at| Expr::Identifier(name(at))).collect();
        let value =
            SelectItem::ExprWithAlias { expr: item(fields), alias: quoted("row".to_owned()) };
        select.projection = vec![value];
        select.from[0].relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        };
    }
    Ok(over)
}

fn is_one_column(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// `(a, b) < (x, y)` is `a < x OR (a = x AND b < y)`; equality is by field.
///
/// Errors: 42601 for rows of different lengths, 0A000 for rows without fields.
fn compare_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Expr> {
    check_rows(left, right)?;
    let pairs = left.iter().zip(right);
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        BinaryOperator::Eq => return Ok(joined(pairs, op, &BinaryOperator::And)),
        _ => return Ok(joined(pairs, op, &BinaryOperator::Or)),
    };
    let mut pairs: Vec<_> = pairs.collect();
    let (a, b) = pairs.pop().expect("a row has fields");
    let mut result = binary(a.clone(), op.clone(), b.clone());
    for (a, b) in pairs.into_iter().rev() {
        let less = binary(a.clone(), strict.clone(), b.clone());
        let same = binary(a.clone(), BinaryOperator::Eq, b.clone());
        let rest = binary(same, BinaryOperator::And, nested(result));
        result = binary(less, BinaryOperator::Or, nested(rest));
    }
    Ok(nested(result))
}

/// Refuses to compare rows that have no fields, or not as many as each other.
fn check_rows(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() != right.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        ));
    }
    if left.is_empty() {
        let message = "cannot compare rows of zero length";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}

fn joined<'a>(
    pairs: impl Iterator<Item = (&'a Expr, &'a Expr)>,
    op: &BinaryOperator,
    with: &BinaryOperator,
) -> Expr {
    let each = pairs.map(|(a, b)| binary(a.clone(), op.clone(), b.clone()));
    nested(each.reduce(|a, b| binary(a, with.clone(), b)).expect("a row has fields"))
}

/// `(a, b) IN ((1, 2), …)` by row equality; any other list stays.
///
/// Errors: those of a comparison of rows.
fn in_list(expr: Expr, list: Vec<Expr>, negated: bool) -> Result<Expr> {
    let rows: Option<Vec<Vec<Expr>>> = list.iter().map(row_of).collect();
    let (Some(left), Some(rows)) = (row_of(&expr), rows) else {
        return Ok(Expr::InList { expr: Box::new(expr), list, negated });
    };
    rows.iter().try_for_each(|row| check_rows(&left, row))?;
    let each = rows
        .iter()
        .map(|row| joined(left.iter().zip(row), &BinaryOperator::Eq, &BinaryOperator::And));
    let any = halcyon_sql::syntax::balanced_chain(each.collect(), &BinaryOperator::Or);
    Ok(if negated {
        Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(any)) }
    } else {
        nested(any)
    })
}
