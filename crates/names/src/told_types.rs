//! What clients are told of columns that are made of system tables' columns: `array_agg` of names gives an array
//! of names, CASE over object ids an object id.
//!
//! Expressions know only texts and integers. A column of a system table says in its field's metadata that it
//! holds names, letters or object ids, and DataFusion keeps that as long as the column stays as it is. Here a plan is read once more
//! from below, by PostgreSQL's rules for what functions and branches give. Types of user tables are in Arrow's types,
//! so plans without a system table end at the first look.
//! Cost: O(nodes of the plan); expressions are read only above a column with such a type.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use halcyon_sql::types::{OID_ALIAS_KEY, PG_TYPE_KEY, TYPE_KEY};

/// The name of a type that only system tables have, of every column of a plan's result that has one.
pub fn told_types(plan: &LogicalPlan) -> Vec<Option<String>> {
    let fields = plan.schema().fields();
    let told = match plan {
        LogicalPlan::Projection(projection) => {
            made(&projection.expr, &projection.input, told_types(&projection.input))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let exprs = [aggregate.group_expr.as_slice(), &aggregate.aggr_expr].concat();
            made(&exprs, &aggregate.input, told_types(&aggregate.input))
        }
        LogicalPlan::Window(window) => {
            // Windows of different orders stand on each other: asked twice, each would double the work.
            let below = told_types(&window.input);
            let more = made(&window.window_expr, &window.input, below.clone());
            [below, more].concat()
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            made(&on.select_expr, &on.input, told_types(&on.input))
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(Distinct::All(_))
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Repartition(_) => told_types(plan.inputs()[0]),
        LogicalPlan::Subquery(subquery) => told_types(&subquery.subquery),
        LogicalPlan::RecursiveQuery(query) => told_types(&query.static_term),
        LogicalPlan::Join(join) if join.left.schema().fields().len() < fields.len() => {
            [told_types(&join.left), told_types(&join.right)].concat()
        }
        LogicalPlan::Union(union) => {
            let inputs: Vec<_> = union.inputs.iter().map(|input| told_types(input)).collect();
            let column = |at: usize| {
                let mut kinds = inputs.iter().map(|told| told.get(at).cloned().flatten());
                let first = kinds.next().flatten()?;
                (first == "name" || kinds.all(|kind| kind.as_ref() == Some(&first)))
                    .then_some(first)
            };
            (0..fields.len()).map(column).collect()
        }
        LogicalPlan::Unnest(unnest) => {
            let below = told_types(&unnest.input);
            let is_list = |at: &usize| unnest.list_type_columns.iter().any(|(list, _)| list == at);
            let column = |at: &usize| match is_list(at) {
                true => below.get(*at).cloned().flatten().and_then(|list| element(&list)),
                false => below.get(*at).cloned().flatten(),
            };
            unnest.dependency_indices.iter().map(column).collect()
        }
        _ => Vec::new(),
    };
    let mut told = told.into_iter();
    let column = |field: &std::sync::Arc<Field>| {
        let found = told.next().flatten().or_else(|| of_field(field));
        found.filter(|name| fits(name, field.data_type()))
    };
    fields.iter().map(column).collect()
}

/// The type that a field's metadata names.
fn of_field(field: &Field) -> Option<String> {
    let metadata = field.metadata();
    let own = || metadata.get(TYPE_KEY).filter(|name| matches!(name.as_str(), "oid" | "oid[]"));
    metadata.get(PG_TYPE_KEY).or_else(|| metadata.get(OID_ALIAS_KEY)).or_else(own).cloned()
}

/// Whether values of an Arrow type can be of a type: what is computed from a column may keep its metadata.
fn fits(name: &str, ty: &DataType) -> bool {
    let is_text = |ty: &DataType| ty.is_string();
    match name {
        "oid" => matches!(ty, DataType::Int32 | DataType::UInt32),
        "name" | "char" => is_text(ty),
        "oid[]" => matches!(ty, DataType::List(item) if *item.data_type() == DataType::Int32),
        "name[]" | "char[]" => matches!(ty, DataType::List(item) if is_text(item.data_type())),
        _ => true,
    }
}

/// What expressions over a plan's columns give, which have these types.
fn made(exprs: &[Expr], input: &LogicalPlan, told: Vec<Option<String>>) -> Vec<Option<String>> {
    let below = Below { schema: input.schema(), told };
    let reads = below.told.iter().any(Option::is_some);
    let of = |expr: &Expr| match below.kind(expr) {
        Kind::Told(name) => Some(name),
        _ => None,
    };
    if reads { exprs.iter().map(of).collect() } else { Vec::new() }
}

/// What an expression gives.
#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// A type that only system tables have, by name.
    Told(String),
    /// A constant in quotes or NULL, which takes the type of what stands beside it.
    Untyped,
    /// An integer constant, which becomes an object id beside one.
    Number,
    /// A value of a type that all tables have.
    Other,
}

/// The columns that expressions read.
struct Below<'p> {
    schema: &'p DFSchema,
    told: Vec<Option<String>>,
}

impl Below<'_> {
    fn kind(&self, expr: &Expr) -> Kind {
        match expr {
            Expr::Alias(alias) => self.kind(&alias.expr),
            Expr::Column(column) => {
                let at = self.schema.index_of_column(column).ok();
                told(at.and_then(|at| self.told.get(at).cloned().flatten()))
            }
            Expr::OuterReferenceColumn(field, _) => told(of_field(field)),
            Expr::Literal(_, Some(_)) => self.own_field(expr),
            Expr::Literal(value, None) => match value {
                ScalarValue::Null | ScalarValue::Utf8View(_) | ScalarValue::Utf8(_) => {
                    Kind::Untyped
                }
                value if value.is_null() => Kind::Untyped,
                value if value.data_type().is_integer() => Kind::Number,
                _ => Kind::Other,
            },
            // Coercion casts to types without a name; what the statement casts has one.
            Expr::Cast(cast) if cast.field.metadata().is_empty() => self.kind(&cast.expr),
            Expr::Case(case) => {
                let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.common(thens.chain(case.else_expr.as_deref()))
            }
            Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
                ("coalesce" | "greatest" | "least", args) => self.common(args.iter()),
                ("make_array", args) => list_of(self.common(args.iter())),
                ("array_element", [list, ..]) => match self.kind(list) {
                    Kind::Told(list) => told(element(&list)),
                    _ => Kind::Other,
                },
                ("array_prepend", [_, list]) => self.kind(list),
                // What a column of a recursive query is given so that both of its parts say the same.
                ("marked", [value]) => match self.own_field(expr) {
                    Kind::Other => self.kind(value),
                    own => own,
                },
                (
                    "nullif" | "optional" | "pg_array_or_empty" | "array_append" | "array_cat"
                    | "array_concat" | "array_remove" | "array_slice",
                    [value, ..],
                ) => self.kind(value),
                _ => self.own_field(expr),
            },
            Expr::AggregateFunction(call) => {
                self.aggregate(call.func.name(), &call.params.args, expr)
            }
            Expr::WindowFunction(call) => self.aggregate(call.fun.name(), &call.params.args, expr),
            Expr::Unnest(unnest) => match self.kind(&unnest.expr) {
                Kind::Told(list) => told(element(&list)),
                _ => Kind::Other,
            },
            Expr::ScalarSubquery(subquery) => {
                told(told_types(&subquery.subquery).into_iter().next().flatten())
            }
            _ => self.own_field(expr),
        }
    }

    fn aggregate(&self, name: &str, args: &[Expr], expr: &Expr) -> Kind {
        match (name, args) {
            ("array_agg", [value, ..]) => list_of(self.kind(value)),
            // PostgreSQL has `max(oid)`, and takes names and letters for texts.
            ("min" | "max", [value]) => match self.kind(value) {
                Kind::Told(name) if is_object_id(&name) => Kind::Told("oid".to_owned()),
                _ => Kind::Other,
            },
            (
                "only" | "any_value" | "first_value" | "last_value" | "nth_value" | "lag" | "lead"
                | "mode",
                [value, ..],
            ) => self.kind(value),
            _ => self.own_field(expr),
        }
    }

    /// The type that values share, of which one is chosen.
    fn common<'e>(&self, values: impl Iterator<Item = &'e Expr>) -> Kind {
        let mut kinds: Vec<Kind> = values.map(|value| self.kind(value)).collect();
        kinds.retain(|kind| *kind != Kind::Untyped);
        let numbers = kinds.contains(&Kind::Number);
        kinds.retain(|kind| *kind != Kind::Number);
        let ids = kinds.iter().all(|kind| matches!(kind, Kind::Told(name) if is_object_id(name)));
        match kinds.first() {
            // A text beside a name becomes a name; a name beside a text, a text.
            Some(Kind::Told(name)) if name == "name" && !numbers => kinds.swap_remove(0),
            Some(Kind::Told(_)) if !numbers && kinds.iter().all(|kind| *kind == kinds[0]) => {
                kinds.swap_remove(0)
            }
            Some(_) if ids => Kind::Told("oid".to_owned()),
            _ => Kind::Other,
        }
    }

    fn own_field(&self, expr: &Expr) -> Kind {
        let field = expr.to_field(self.schema).ok();
        told(field.and_then(|(_, field)| of_field(&field)))
    }
}

fn told(name: Option<String>) -> Kind {
    name.map_or(Kind::Other, Kind::Told)
}

fn is_object_id(name: &str) -> bool {
    name == "oid" || matches!(name, "regclass" | "regtype" | "regnamespace" | "regrole")
}

/// Lists of values of a kind.
fn list_of(kind: Kind) -> Kind {
    match kind {
        Kind::Told(name) if is_object_id(&name) => Kind::Told("oid[]".to_owned()),
        Kind::Told(name) if matches!(name.as_str(), "name" | "char") => {
            Kind::Told(format!("{name}[]"))
        }
        _ => Kind::Other,
    }
}

/// The type of a list's elements.
fn element(list: &str) -> Option<String> {
    match list {
        "oidvector" => Some("oid".to_owned()),
        list => list.strip_suffix("[]").map(str::to_owned),
    }
}
