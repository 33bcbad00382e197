//! The configuration of DataFusion in Halcyon: options, functions, planners and optimizer rules.

use std::sync::Arc;

use datafusion::catalog::TableFunction;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SessionState, SessionStateDefaults};
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::prelude::SessionConfig;

use crate::callables::{Callable, Registered};
use crate::dates::CompareAsDates;
use crate::engine::DataFusion;
use crate::functions;
use crate::growing;
use crate::interrupts;
use crate::mended_rules;
use crate::operands;
use crate::semi_joins::PushDownSemiJoins;
use crate::series::{self, SeriesFunction};
use crate::system_names::{NoSystemSchemas, SystemSchemas};
use crate::windows;
use crate::workers::Workers;
use halcyon_functions::{corrected, nested};
use halcyon_unnest::union_tops::TopsOfArms;

impl Default for DataFusion {
    /// Without system schemas.
    fn default() -> Self {
        Self::new(Box::new(NoSystemSchemas), Workers::default())
    }
}

impl DataFusion {
    /// `system`: the system schemas without a running engine.
    pub fn new(system: Box<dyn SystemSchemas>, workers: Workers) -> Self {
        let (state, bare) = states();
        DataFusion::of(state, bare, system, workers)
    }
}

/// Options of every plan.
pub fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.default_null_ordering = "nulls_max".to_owned();
    options.execution.time_zone = Some("+00:00".to_owned());
    options.execution.skip_physical_aggregate_schema_check = true;
    options.explain.show_statistics = false;
    // Scans ask whether integers are in such a list by a bitmap.
    options.optimizer.hash_join_inlist_pushdown_max_distinct_values = 4_096;
    config
}

/// Names of all functions that statements may call, but for those of the system catalogs.
pub fn function_names() -> impl Iterator<Item = String> {
    let (state, _) = states();
    let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
    names.extend(state.aggregate_functions().keys().cloned());
    names.extend(state.window_functions().keys().cloned());
    names.into_iter()
}

/// All functions of the registry, sorted by name.
pub fn callables() -> Vec<Callable> {
    let (state, _) = states();
    let mut all = Vec::new();
    for (name, function) in state.scalar_functions() {
        all.push(Callable::new(name, Registered::Scalar(Arc::clone(function))));
    }
    for (name, function) in state.aggregate_functions() {
        all.push(Callable::new(name, Registered::Aggregate(Arc::clone(function))));
    }
    for (name, function) in state.window_functions() {
        all.push(Callable::new(name, Registered::Window(Arc::clone(function))));
    }
    let others = state.table_functions().keys().chain(state.higher_order_functions().keys());
    all.extend(others.map(|name| Callable::new(name, Registered::Other)));
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

/// Names of all scalar functions, each once, without other names of the same.
#[cfg(test)]
pub(crate) fn scalar_names() -> impl Iterator<Item = String> {
    let (state, _) = states();
    let names = state.scalar_functions().values().map(|function| function.name().to_owned());
    names.collect::<Vec<_>>().into_iter()
}

/// DataFusion's rules, some of them replaced ([`mended_rules`]), and Halcyon's: dates are compared
/// as dates right after constants are folded and before common subexpressions are found, which
/// would separate a cast that occurs twice from its comparisons; semi-joins are moved once filters
/// are where they belong, and few rows are wanted of a union's arms once sorts know how many.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<_> = Optimizer::new().rules.into_iter().map(mended_rules::mended).collect();
    let folded = rules.iter().position(|rule| rule.name() == "simplify_expressions");
    rules.insert(folded.map_or(rules.len(), |at| at + 1), Arc::new(CompareAsDates));
    let filters = rules.iter().position(|rule| rule.name() == "push_down_filter");
    rules.insert(filters.map_or(rules.len(), |at| at + 1), Arc::new(PushDownSemiJoins));
    let limits = rules.iter().position(|rule| rule.name() == "push_down_limit");
    rules.insert(limits.map_or(rules.len(), |at| at + 1), Arc::new(TopsOfArms));
    rules.into_iter().map(interrupts::watched).collect()
}

/// DataFusion's functions in FROM, and ours.
fn table_functions() -> Vec<Arc<TableFunction>> {
    let mut all = SessionStateDefaults::default_table_functions();
    all.push(Arc::new(TableFunction::new(series::NAME.to_owned(), Arc::new(SeriesFunction))));
    all
}

fn states() -> (SessionState, SessionState) {
    let runtime = Arc::new(RuntimeEnv::default());
    let bare = SessionStateBuilder::new()
        .with_config(config())
        .with_runtime_env(Arc::clone(&runtime))
        .with_physical_optimizer_rules(interrupts::watched_physical_rules())
        .build();
    let mut scalars = SessionStateDefaults::default_scalar_functions();
    scalars.extend(corrected::corrected(&scalars));
    scalars.extend([series::array_function(), nested::array_dims()]);
    scalars.extend(functions::scalar_functions());
    scalars.extend(halcyon_functions::enumerations::functions());
    let bounded = growing::bounded(&scalars);
    // Another name of a bounded function may be the name of one of ours, which bounds its results itself.
    let own = halcyon_functions::all().into_iter();
    let own = own.filter(|own| bounded.iter().all(|other| other.name() != own.name()));
    let own: Vec<_> = own.collect();
    scalars.extend(bounded);
    scalars.extend(own);
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(operands::Operators)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    let mut aggregates = SessionStateDefaults::default_aggregate_functions();
    aggregates.extend(halcyon_aggregates::corrected::corrected(&aggregates));
    aggregates.extend(functions::aggregate_functions());
    // A sort below a LIMIT or at the end of a query keeps its order. The options of the bare state
    // are for views, which have no order.
    let mut ordered = config();
    ordered.options_mut().sql_parser.enable_subquery_sort_elimination = false;
    let state = SessionStateBuilder::new()
        .with_config(ordered)
        .with_runtime_env(runtime)
        .with_expr_planners(planners)
        .with_scalar_functions(scalars)
        .with_aggregate_functions(aggregates)
        .with_window_functions(windows::functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_table_function_list(table_functions())
        .with_optimizer_rules(optimizer_rules())
        .build();
    (state, bare)
}
