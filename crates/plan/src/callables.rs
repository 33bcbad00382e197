//! The functions that statements may call, as the planner's registry has them: for tests that call
//! every function with every type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

/// A function that statements may call.
pub struct Callable {
    /// The name in SQL, one of several perhaps.
    pub name: String,
    function: Registered,
}

/// What is registered under a name.
pub(crate) enum Registered {
    Scalar(Arc<ScalarUDF>),
    Aggregate(Arc<AggregateUDF>),
    Window(Arc<WindowUDF>),
    /// A function in FROM, or of functions: known by name alone.
    Other,
}

/// How a call is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `f(x)` for a row.
    PerRow,
    /// `f(x)` for a group, or with OVER.
    PerGroup,
    /// `f(x) OVER (…)`.
    Over,
}

impl Callable {
    pub(crate) fn new(name: &str, function: Registered) -> Self {
        Callable { name: name.to_owned(), function }
    }

    /// How a call is written.
    pub fn called(&self) -> Called {
        match self.function {
            Registered::Scalar(_) | Registered::Other => Called::PerRow,
            Registered::Aggregate(_) => Called::PerGroup,
            Registered::Window(_) => Called::Over,
        }
    }

    /// Whether the function is declared for arguments of these types.
    pub fn takes(&self, types: &[DataType]) -> bool {
        let field = |ty: &DataType| Arc::new(Field::new("argument", ty.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        match &self.function {
            Registered::Scalar(function) => fits(&fields, &**function),
            Registered::Aggregate(function) => fits(&fields, &**function),
            Registered::Window(function) => fits(&fields, &**function),
            Registered::Other => true,
        }
    }
}

fn fits(fields: &[FieldRef], function: &impl UDFCoercionExt) -> bool {
    fields_with_udf(fields, function).is_ok()
}
