//! Frames of windows with EXCLUDE CURRENT ROW, GROUP or TIES.
//!
//! DataFusion's frames exclude nothing. So until a plan is to run, the FILTER of such an aggregate, and the first argument
//! of `first_value` and its like, say what the frame excludes ([`marker`]). Then a window function takes its place
//! ([`with_exclusion`]) that evaluates the aggregate, or finds the value, over the rows of the frame that are left: up to
//! three runs of them.
//!
//! Cost: of an aggregate O(rows of the frame) for each row, which looks whether the statement is to end; of a value O(1).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, filter, partition};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::function::{
    AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, ExprSchemable, PartitionEvaluator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFunctionDefinition,
    WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;

use halcyon_sql::diagnose::external;
use halcyon_sql::error::{SqlError, SqlState};

/// What a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Exclusion {
    CurrentRow,
    /// The current row and those equal to it in the window's order.
    Group,
    /// Those equal to the current row, which stays.
    Ties,
}

impl Exclusion {
    /// By the first word behind EXCLUDE.
    fn of(word: &str) -> Exclusion {
        match word {
            "CURRENT" => Exclusion::CurrentRow,
            "GROUP" => Exclusion::Group,
            _ => Exclusion::Ties,
        }
    }

    /// The rows of `frame` that are left for `row`, whose equals are `peers`.
    fn left(self, frame: &Range<usize>, row: usize, peers: &Range<usize>) -> [Range<usize>; 3] {
        let (first, second) = match self {
            Exclusion::CurrentRow => (row..row + 1, row + 1..row + 1),
            Exclusion::Group => (peers.clone(), peers.end..peers.end),
            Exclusion::Ties => (peers.start..row, row + 1..peers.end),
        };
        let within = |from: usize, to: usize| {
            let from = from.clamp(frame.start, frame.end);
            from..to.clamp(from, frame.end)
        };
        [within(0, first.start), within(first.end, second.start), within(second.end, frame.end)]
    }
}

/// The function that stands for what the frame excludes, which its first argument names: a condition, or the second
/// argument's value. No statement runs it.
pub fn marker(name: &str) -> Arc<ScalarUDF> {
    // Nothing is volatile about it, but nobody is to compute it.
    let signature = Signature::variadic_any(Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Marker { name: name.to_owned(), signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: String,
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Boolean))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let condition = || Arc::new(Field::new(&self.name, DataType::Boolean, false));
        Ok(args.arg_fields.get(1).cloned().unwrap_or_else(condition))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(SqlError::unsupported("EXCLUDE in the frame of this window")))
    }
}

/// What an expression says of exclusion, if it is a call of [`marker`].
fn marked(expr: &Expr) -> Option<Exclusion> {
    let Expr::ScalarFunction(call) = expr else { return None };
    call.func.inner().downcast_ref::<Marker>()?;
    match call.args.first()? {
        Expr::Literal(word, _) => word.try_as_str().flatten().map(Exclusion::of),
        _ => None,
    }
}

/// A call whose frame excludes rows, as it is evaluated; any other one as it is.
pub fn with_exclusion(call: WindowFunction, schema: &DFSchema) -> Result<WindowFunction> {
    if let Some(exclusion) = call.params.args.first().and_then(marked) {
        return value_of_frame(call, exclusion, schema);
    }
    let Some(given) = call.params.filter.clone() else { return Ok(call) };
    let (marks, rest): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(*given).into_iter().partition(|part| marked(part).is_some());
    let Some(exclusion) = marks.first().and_then(marked) else { return Ok(call) };
    let filter = conjunction(rest);
    let mut made = call;
    made.params.filter = None;
    let WindowFunctionDefinition::AggregateUDF(function) = &made.fun else { return Ok(made) };
    let over = Over::Aggregate { function: Arc::clone(function), filtered: filter.is_some() };
    let field = Expr::from(made.clone()).to_field(schema)?.1;
    made.params.args.extend(filter);
    Ok(evaluated(made, over, exclusion, field))
}

/// `first_value` and its like over the rows that are left.
fn value_of_frame(
    mut call: WindowFunction,
    exclusion: Exclusion,
    schema: &DFSchema,
) -> Result<WindowFunction> {
    if let Some(Expr::ScalarFunction(marker)) = call.params.args.first()
        && let Some(value) = marker.args.get(1).cloned()
    {
        call.params.args[0] = value;
    }
    let over = match call.fun.name() {
        "first_value" => Over::First,
        "last_value" => Over::Last,
        _ => Over::Nth,
    };
    let field = Expr::from(call.clone()).to_field(schema)?.1;
    Ok(evaluated(call, over, exclusion, field))
}

fn evaluated(
    mut call: WindowFunction,
    over: Over,
    exclusion: Exclusion,
    field: FieldRef,
) -> WindowFunction {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let function = Excluding { over, exclusion, field, signature };
    call.fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(function)));
    call
}

/// What is found over the rows that are left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Over {
    First,
    Last,
    /// The second argument counts from 1.
    Nth,
    /// `filtered`: the last argument is its FILTER.
    Aggregate {
        function: Arc<AggregateUDF>,
        filtered: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Excluding {
    over: Over,
    exclusion: Exclusion,
    /// The result's.
    field: FieldRef,
    signature: Signature,
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        match &self.over {
            Over::First => "first_value",
            Over::Last => "last_value",
            Over::Nth => "nth_value",
            Over::Aggregate { function, .. } => function.name(),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Left {
            of: self.clone(),
            exprs: args.input_exprs().to_vec(),
            fields: args.input_fields().to_vec(),
            row: 0,
            peers: Vec::new(),
            group: 0,
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::clone(&self.field).with_name(args.name()).with_nullable(true)))
    }
}

/// The evaluation over one partition, whose rows come in order.
#[derive(Debug)]
struct Left {
    of: Excluding,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    row: usize,
    /// Runs of rows that are equal in the order, found with the first row.
    peers: Vec<Range<usize>>,
    /// The run of the row before.
    group: usize,
}

impl PartitionEvaluator for Left {
    fn uses_window_frame(&self) -> bool {
        true
    }

    /// `values`: the arguments, and behind them what the window is ordered by.
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        SqlError::unless_interrupted().map_err(external)?;
        let (args, order) = values.split_at(self.exprs.len());
        if self.peers.is_empty() {
            self.peers = match order {
                [] => std::iter::once(0..args[0].len()).collect(),
                order => partition(order)?.ranges(),
            };
        }
        let row = self.row;
        self.row += 1;
        while self.peers[self.group].end <= row {
            self.group += 1;
        }
        let left = self.of.exclusion.left(range, row, &self.peers[self.group]);
        let place = match &self.of.over {
            Over::Aggregate { function, filtered } => {
                return self.aggregated(function, *filtered, args, &left);
            }
            Over::First => left.iter().find(|run| !run.is_empty()).map(|run| run.start),
            Over::Last => left.iter().rev().find(|run| !run.is_empty()).map(|run| run.end - 1),
            Over::Nth => {
                nth(&args[1], row)?.and_then(|number| left.into_iter().flatten().nth(number - 1))
            }
        };
        match place {
            Some(place) => ScalarValue::try_from_array(&args[0], place),
            None => ScalarValue::try_from(self.of.field.data_type()),
        }
    }
}

/// The second argument of `nth_value` for a row. Errors: 22016 unless it is above zero.
fn nth(numbers: &ArrayRef, row: usize) -> Result<Option<usize>> {
    let number = cast(&numbers.slice(row, 1), &DataType::Int64)?;
    let number = number.as_primitive::<Int64Type>();
    if number.is_null(0) {
        return Ok(None);
    }
    match usize::try_from(number.value(0)) {
        Ok(number) if number > 0 => Ok(Some(number)),
        _ => Err(external(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE_FUNCTION,
            "argument of nth_value must be greater than zero",
        ))),
    }
}

impl Left {
    fn aggregated(
        &self,
        function: &AggregateUDF,
        filtered: bool,
        args: &[ArrayRef],
        left: &[Range<usize>],
    ) -> Result<ScalarValue> {
        let own = args.len() - usize::from(filtered);
        let mut accumulator = function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.of.field),
            schema: &Schema::empty(),
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: function.name(),
            is_distinct: false,
            exprs: &self.exprs[..own],
            expr_fields: &self.fields[..own],
        })?;
        for run in left.iter().filter(|run| !run.is_empty()) {
            let part = |array: &ArrayRef| array.slice(run.start, run.len());
            let mut parts: Vec<ArrayRef> = args[..own].iter().map(part).collect();
            if filtered {
                let kept = part(&args[own]);
                let kept = kept.as_boolean();
                parts = parts.iter().map(|part| filter(part, kept)).collect::<Result<_, _>>()?;
            }
            accumulator.update_batch(&parts)?;
        }
        accumulator.evaluate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_left_are_those_of_the_frame_without_the_excluded() {
        let excluded = |kind, row: usize, peers: &Range<usize>, at: usize| match kind {
            Exclusion::CurrentRow => at == row,
            Exclusion::Group => peers.contains(&at),
            Exclusion::Ties => at != row && peers.contains(&at),
        };
        for kind in [Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties] {
            for (start, end) in (0..7).flat_map(|start| (start..7).map(move |end| (start, end))) {
                for (row, peers) in [(0, 0..1), (3, 2..5), (2, 2..5), (4, 2..5), (6, 5..7)] {
                    let left = kind.left(&(start..end), row, &peers);
                    let found: Vec<usize> = left.into_iter().flatten().collect();
                    let wanted = (start..end).filter(|at| !excluded(kind, row, &peers, *at));
                    assert_eq!(found, wanted.collect::<Vec<_>>(), "{kind:?} {start}..{end} {row}");
                }
            }
        }
    }
}
