//! Rewriting of expressions, operands first.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, BinaryOperator, CaseWhen, CastKind, DataType, Expr,
    Function, FunctionArguments, Ident, ObjectName, ObjectNamePart, Select, Subscript,
    UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use halcyon_sql::coerce::arrays;

use super::{call, folded, function_name, number, parts};
use crate::{Context, functions};

/// Rewrites one expression whose operands are done.
pub(super) fn rewrite(expr: &mut Expr, _: &Context) {
    match expr {
        Expr::Function(function) => strip_schema(function),
        Expr::BinaryOp { left, op, right } => {
            builtin_operator(op);
            if *op == BinaryOperator::StringConcat {
                // Beside a text, what names an object is its name.
                show_name(left);
                show_name(right);
            }
            function_ids(left, right);
            function_ids(right, left);
        }
        Expr::Case { conditions, else_result, .. } => {
            bases_of_domains(conditions);
            lists_of_rights(conditions, else_result);
        }
        _ => {}
    }
    let new = match expr {
        Expr::Function(function) => set_returning(function)
            .or_else(|| to_reg(function))
            .or_else(|| age_of_transaction(function)),
        Expr::Identifier(ident) if ident.quote_style.is_none() => {
            let name = folded(ident);
            is_bare_function(&name).then(|| call(&name, Vec::new()))
        }
        Expr::Collate { expr, collation } => {
            let known = parts(collation).is_some_and(|parts| {
                let name = parts.last().map(|name| name.to_lowercase());
                matches!(name.as_deref(), Some("default" | "c" | "posix" | "ucs_basic"))
            });
            known.then(|| (**expr).clone())
        }
        Expr::Cast { expr, data_type, .. } => cast(expr, data_type),
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            array_of(right).map(|array| call("array_has", vec![array, (**left).clone()]))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            array_of(right).map(|array| Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr: Box::new(call("array_has", vec![array, (**left).clone()])),
            })
        }
        Expr::CompoundFieldAccess { root, access_chain } => access(root, access_chain),
        _ => None,
    };
    if let Some(new) = new {
        *expr = new;
    }
}

/// `CASE WHEN t.typtype = 'd' THEN (WITH RECURSIVE …)`: drivers follow the types below a domain by a query that
/// names `t`. No domain stands on another one here, so that is its base type.
fn bases_of_domains(conditions: &mut [CaseWhen]) {
    for CaseWhen { condition, result } in conditions {
        let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { continue };
        let is_domain = matches!(right.as_ref(),
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(kind), .. }) if kind == "d");
        let is_followed = matches!(result, Expr::Subquery(query)
            if query.with.as_ref().is_some_and(|with| with.recursive));
        if let (true, true, Some(path)) = (is_domain, is_followed, path_of(left, "typtype")) {
            *result = path("typbasetype");
        }
    }
}

/// A column's path, if the column has this name: gives the table's column of another name.
fn path_of<'a>(column: &'a Expr, name: &str) -> Option<impl Fn(&str) -> Expr + use<'a>> {
    let path = match column {
        Expr::Identifier(ident) => std::slice::from_ref(ident),
        Expr::CompoundIdentifier(path) => path.as_slice(),
        _ => return None,
    };
    let (last, table) = path.split_last()?;
    (folded(last) == name).then_some(move |other: &str| {
        let mut path = table.to_vec();
        path.push(Ident::new(other));
        column_at(path)
    })
}

/// The column that a path names.
fn column_at(mut path: Vec<Ident>) -> Expr {
    match path.len() {
        1 => Expr::Identifier(path.remove(0)),
        _ => Expr::CompoundIdentifier(path),
    }
}

/// `pg_catalog.t.c`, a column by its table's whole name, as `t.c`.
pub(super) fn without_schema(expr: &mut Expr) {
    if let Expr::CompoundIdentifier(path) = expr
        && path.len() == 3
        && crate::SCHEMAS.contains(&folded(&path[0]).as_str())
    {
        path.remove(0);
    }
}

/// Applies [`without_schema`] to all columns of a SELECT, its subqueries included.
pub(super) fn columns_without_schema(select: &mut Select) {
    struct Columns;
    impl VisitorMut for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            without_schema(expr);
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(select, &mut Columns);
}

/// Functions of SQL that are called without parentheses, where the parser takes them for columns.
pub(super) fn is_bare_function(name: &str) -> bool {
    matches!(name, "current_schema" | "current_role" | "current_catalog")
        || matches!(name, "current_user" | "session_user")
}

fn strip_schema(function: &mut Function) {
    if let Some(name) = function_name(function)
        && function.name.0.len() > 1
    {
        function.name = ObjectName::from(vec![Ident::new(name)]);
    }
    // `current_user` and its like: DataFusion wants the parentheses.
    if matches!(function.args, FunctionArguments::None)
        && let Some(name) = function_name(function)
        && functions::is_known(&name)
        && let Expr::Function(with_arguments) = call(&name, Vec::new())
    {
        *function = with_arguments;
    }
}

/// `OPERATOR(pg_catalog.~)` is `~`.
fn builtin_operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(path) = op else { return };
    if path.len() > 1 && path[0] != "pg_catalog" {
        return;
    }
    *op = match path.last().map(String::as_str) {
        Some("~") => BinaryOperator::PGRegexMatch,
        Some("~*") => BinaryOperator::PGRegexIMatch,
        Some("!~") => BinaryOperator::PGRegexNotMatch,
        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
        Some("~~") => BinaryOperator::PGLikeMatch,
        Some("~~*") => BinaryOperator::PGILikeMatch,
        Some("!~~") => BinaryOperator::PGNotLikeMatch,
        Some("!~~*") => BinaryOperator::PGNotILikeMatch,
        Some("=") => BinaryOperator::Eq,
        Some("<>") => BinaryOperator::NotEq,
        Some("<") => BinaryOperator::Lt,
        Some("<=") => BinaryOperator::LtEq,
        Some(">") => BinaryOperator::Gt,
        Some(">=") => BinaryOperator::GtEq,
        Some("+") => BinaryOperator::Plus,
        Some("-") => BinaryOperator::Minus,
        Some("||") => BinaryOperator::StringConcat,
        _ => return,
    };
}

/// A column of functions (`regproc`), which holds their names, is compared with a number by its ids.
fn function_ids(expr: &mut Expr, other: &Expr) {
    let number = matches!(other, Expr::Value(value) if matches!(value.value, Value::Number(..)));
    if number && is_function_column(expr) {
        *expr = call("pg_regproc_oid", vec![expr.clone()]);
    }
}

fn is_function_column(expr: &Expr) -> bool {
    column_name(expr).is_some_and(|name| crate::statics::is_function_column(&name))
}

/// Functions that give a list here and a set of rows in PostgreSQL.
fn set_returning(function: &mut Function) -> Option<Expr> {
    let name = function_name(function)?;
    if let ("unnest", [Expr::Identifier(column)]) = (&*name, &super::arguments(function)[..])
        && folded(column) == "proargtypes"
    {
        let elements = call("pg_vector_elements", vec![Expr::Identifier(column.clone())]);
        return Some(call("unnest", vec![elements]));
    }
    let sets = matches!(
        name.as_str(),
        "_pg_expandarray"
            | "pg_partition_ancestors"
            | "pg_listening_channels"
            | "generate_subscripts"
            | "aclexplode"
    );
    sets.then(|| call("unnest", vec![Expr::Function(function.clone())]))
}

/// The `reg` type meant, such as `regclass`.
fn reg_type(ty: &DataType) -> Option<&'static str> {
    let name = match ty {
        DataType::Regclass => return Some("regclass"),
        DataType::Custom(name, args) if args.is_empty() => parts(name)?.pop()?,
        _ => return None,
    };
    Some(match name.as_str() {
        "regclass" => "regclass",
        "regtype" => "regtype",
        "regnamespace" => "regnamespace",
        "regrole" => "regrole",
        "regproc" | "regprocedure" => "regproc",
        "regoper" => "regoper",
        "regoperator" => "regoperator",
        _ => return None,
    })
}

/// `age` of a column that holds a transaction's number.
fn age_of_transaction(function: &Function) -> Option<Expr> {
    let [argument] = super::arguments(function)[..] else { return None };
    let name = column_name(argument)?;
    let is_number = matches!(&*name, "xmin" | "xmax" | "backend_xmin" | "catalog_xmin")
        || name.ends_with("xid")
        || name == "transactionid";
    (function_name(function)? == "age" && is_number)
        .then(|| call("pg_xid_age", vec![argument.clone()]))
}

/// The name of a column.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        _ => None,
    }
}

/// `to_regclass(name)` and its like as the cast that they are where the name stands for something.
fn to_reg(function: &Function) -> Option<Expr> {
    let name = function_name(function)?;
    let kind = name.strip_prefix("to_").filter(|kind| kind.starts_with("reg"))?;
    matches!(kind, "regclass" | "regtype" | "regnamespace" | "regrole" | "regproc")
        .then(|| call(&format!("pg_{kind}_oid"), vec![Expr::Function(function.clone())]))
}

fn cast(inner: &Expr, ty: &DataType) -> Option<Expr> {
    if let Some(reg) = reg_type(ty) {
        if reg == "regproc" {
            // Columns of this type hold names.
            return Some(call("pg_regproc_name", vec![inner.clone()]));
        }
        return Some(call(&format!("pg_{reg}_oid"), vec![inner.clone()]));
    }
    if let DataType::Array(element) = ty {
        let named = objects_named(inner, element).or_else(|| array_literal(inner, element));
        return named.or_else(|| array_of_integers(inner, element));
    }
    if is_any_text(ty) {
        let mut shown = inner.clone();
        return show_name(&mut shown).then_some(shown);
    }
    let ty = builtin_type(ty)?;
    if matches!(ty, DataType::Integer(_)) && is_function_column(inner) {
        return Some(call("pg_regproc_oid", vec![inner.clone()]));
    }
    if matches!(ty, DataType::Integer(_))
        && let Expr::Function(function) = inner
        && function_name(function).as_deref() == Some("pg_regproc_name")
        && let [argument] = super::arguments(function)[..]
    {
        return Some(call("pg_regproc_oid", vec![argument.clone()]));
    }
    if matches!(ty, DataType::Text) {
        let mut shown = inner.clone();
        if show_name(&mut shown) {
            return Some(shown);
        }
    }
    Some(Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(inner.clone()),
        data_type: ty,
        array: false,
        format: None,
    })
}

/// Whether a type is one of texts of any length, by a name that DataFusion knows.
fn is_any_text(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Varchar(None) | DataType::CharacterVarying(None) | DataType::CharVarying(None)
    )
}

/// `column::int[]` of a column of object ids, whose own type is not kept.
fn array_of_integers(inner: &Expr, element: &ArrayElemTypeDef) -> Option<Expr> {
    let (ArrayElemTypeDef::SquareBracket(ty, _) | ArrayElemTypeDef::AngleBracket(ty)) = element
    else {
        return None;
    };
    let is_integer =
        matches!(**ty, DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None));
    let ids = ["proallargtypes", "conexclop", "conpfeqop", "conppeqop", "conffeqop"];
    let name = column_name(inner)?;
    (is_integer && ids.contains(&&*name)).then(|| call("pg_int4_array", vec![inner.clone()]))
}

/// Types that DataFusion does not know by this name.
fn builtin_type(ty: &DataType) -> Option<DataType> {
    let name = match ty {
        DataType::Text => return Some(DataType::Text),
        DataType::Custom(name, args) if args.is_empty() => parts(name)?.pop()?,
        _ => return None,
    };
    Some(match name.as_str() {
        "text" | "name" | "varchar" | "bpchar" | "char" | "pg_node_tree" | "aclitem"
        | "cstring" | "unknown" | "tid" => DataType::Text,
        "oid" | "int4" | "integer" | "int" | "cid" => DataType::Integer(None),
        "xid" | "int8" | "bigint" | "xid8" => DataType::BigInt(None),
        "int2" | "smallint" => DataType::SmallInt(None),
        "bool" | "boolean" => DataType::Boolean,
        "float4" | "real" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        _ => return None,
    })
}

/// A `reg` id that is to be shown becomes the name; says whether it was one.
pub(super) fn show_name(expr: &mut Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    if function.name.0.len() == 1
        && let Some(ObjectNamePart::Identifier(ident)) = function.name.0.first_mut()
        && ident.value.starts_with("pg_reg")
        && let Some(kind) = ident.value.strip_suffix("_oid")
    {
        ident.value = format!("{kind}_name");
        return true;
    }
    false
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// A text that looks like a list is one in a CASE that may give `acldefault`.
fn lists_of_rights(conditions: &mut [CaseWhen], else_result: &mut Option<Box<Expr>>) {
    let is_rights = |expr: &Expr| match expr {
        Expr::Function(function) => function_name(function).as_deref() == Some("acldefault"),
        _ => false,
    };
    let results = || conditions.iter().map(|when| &when.result);
    if !results().chain(else_result.as_deref()).any(is_rights) {
        return;
    }
    let results = conditions.iter_mut().map(|when| &mut when.result);
    for result in results.chain(else_result.as_deref_mut()) {
        if let Some(list) = array_literal(result, &ArrayElemTypeDef::None) {
            *result = list;
        }
    }
}

/// `'{a,b}'::regtype[]` and `ARRAY['a', 'b']::regtype[]` as the array of the objects' ids.
fn objects_named(inner: &Expr, element: &ArrayElemTypeDef) -> Option<Expr> {
    let (ArrayElemTypeDef::SquareBracket(ty, _) | ArrayElemTypeDef::AngleBracket(ty)) = element
    else {
        return None;
    };
    let kind = reg_type(ty).filter(|kind| *kind != "regproc")?;
    let elem = match inner {
        Expr::Array(array) => array.elem.clone(),
        Expr::Nested(inner) => return objects_named(inner, element),
        other => {
            let texts = arrays::parse(literal(other)?).ok()?.into_iter();
            texts.map(|text| text.map_or_else(super::null, string)).collect()
        }
    };
    let id = |name| call(&format!("pg_{kind}_oid"), vec![name]);
    Some(Expr::Array(Array { elem: elem.into_iter().map(id).collect(), named: true }))
}

/// `'{a,b}'::text[]` as `ARRAY['a','b']`.
fn array_literal(inner: &Expr, element: &ArrayElemTypeDef) -> Option<Expr> {
    let numeric = match element {
        ArrayElemTypeDef::SquareBracket(ty, _) | ArrayElemTypeDef::AngleBracket(ty) => {
            let text = ty.to_string().to_lowercase();
            text.contains("int") || text.ends_with("oid")
        }
        _ => false,
    };
    let elem = arrays::parse(literal(inner)?).ok()?;
    let elem = elem.into_iter().map(|element| match (element, numeric) {
        (None, _) => super::null(),
        (Some(text), true) => text.parse().map_or_else(|_| string(text), number),
        (Some(text), false) => string(text),
    });
    Some(Expr::Array(Array { elem: elem.collect(), named: true }))
}

fn string(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).with_empty_span())
}

/// The array on the right of ANY or ALL; `None` if it is a subquery.
fn array_of(right: &Expr) -> Option<Expr> {
    match right {
        Expr::Subquery(_) => None,
        Expr::Nested(inner) => array_of(inner),
        other => match literal(other) {
            Some(text) => {
                let elem = arrays::parse(text).ok()?.into_iter();
                let elem = elem.map(|text| text.map_or_else(super::null, string)).collect();
                Some(Expr::Array(Array { elem, named: true }))
            }
            None => Some(other.clone()),
        },
    }
}

/// `(row).field`, and subscripts of the vectors of `pg_index`, which begin at 0.
fn access(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    match chain {
        [AccessExpr::Dot(Expr::Identifier(field))] => {
            let root = match root {
                Expr::Nested(inner) => inner.as_ref(),
                other => other,
            };
            Some(call("get_field", vec![root.clone(), string(field.value.clone())]))
        }
        [.., AccessExpr::Subscript(Subscript::Index { index })] => {
            // `a.b[i]` comes as root `a` with the field among the accesses.
            let (fields, _) = chain.split_at(chain.len() - 1);
            let mut path = match root {
                Expr::Identifier(ident) => vec![ident.clone()],
                Expr::CompoundIdentifier(idents) => idents.clone(),
                _ => return None,
            };
            for field in fields {
                let AccessExpr::Dot(Expr::Identifier(ident)) = field else { return None };
                path.push(ident.clone());
            }
            let name = folded(path.last()?);
            // A name's letters are counted from 0 too.
            if name.ends_with("name") && path.len() <= 2 {
                let place = Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(index.clone()))),
                    op: BinaryOperator::Plus,
                    right: Box::new(number(1)),
                };
                return Some(call("substr", vec![column_at(path), place, number(1)]));
            }
            let vectors = ["indoption", "indkey", "indclass", "indcollation"];
            if !vectors.iter().any(|vector| name.ends_with(vector)) {
                return None;
            }
            let index = Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(index.clone()))),
                op: BinaryOperator::Plus,
                right: Box::new(number(1)),
            };
            let element = call("array_element", vec![column_at(path), index]);
            let is_id = ["indclass", "indcollation"].iter().any(|vector| name.ends_with(vector));
            Some(if is_id { call("pg_vector_element", vec![element]) } else { element })
        }
        _ => None,
    }
}
