//! Expressions that rewriting makes.

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
};

/// Whether an expression is a constant in quotes.
pub fn is_quoted(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// `expr::data_type`.
pub fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

/// `name(args)`.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|a| FunctionArg::Unnamed(FunctionArgExpr::Expr(a))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![quoted(name.to_owned())]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A constant in quotes.
pub(crate) fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_owned()).with_empty_span())
}

/// `(expr)`.
pub(crate) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// `left op right`.
pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// A number as it is written.
pub fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).with_empty_span())
}

/// A name between double quotes.
pub fn quoted(name: String) -> Ident {
    Ident::with_quote('"', name)
}
