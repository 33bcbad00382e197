//! Functions that do something: to the session, to others, or to the clock on the wall.

use std::time::Duration;

use super::*;
use crate::effects::{AdvisoryKey, AdvisoryRequest, Effects};
#[cfg(test)]
use halcyon_plan::effects_last::has_effects;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    define("set_config", (3, 3), Gives::Text, LIVE, |c, args| {
        let Some(name) = args[0].text() else {
            let message = "SET requires parameter name";
            return Err(error(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        };
        let local = args[2].bool().unwrap_or(false);
        let value = args[1].text().unwrap_or_default();
        effects(c)?.set_config(name, value, local).map(text).map_err(external)
    }),
    define("pg_notify", (2, 2), Gives::Void, LIVE, |c, args| {
        let (channel, payload) = (args[0].text(), args[1].text());
        let (channel, payload) = (channel.unwrap_or_default(), payload.unwrap_or_default());
        effects(c)?.notify(channel, payload).map(|()| nothing()).map_err(external)
    }),
    define("pg_sleep", (1, 1), Gives::Void, LIVE, |c, args| {
        let Some(seconds) = args[0].number() else { return Ok(ScalarValue::Null) };
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        effects(c)?.sleep(time).map(|()| nothing()).map_err(external)
    }),
    define("pg_cancel_backend", (1, 1), Gives::Bool, LIVE, |c, args| {
        let Some(session) = args[0].oid() else { return Ok(ScalarValue::Null) };
        effects(c)?.cancel(session).map(truth).map_err(external)
    }),
    define("pg_terminate_backend", (1, 2), Gives::Bool, LIVE, |c, args| {
        let Some(session) = args[0].oid() else { return Ok(ScalarValue::Null) };
        effects(c)?.end(session).map(truth).map_err(external)
    }),
    define("pg_advisory_lock", (1, 2), Gives::Void, LIVE, |c, a| waited(c, a, false, false)),
    define("pg_advisory_lock_shared", (1, 2), Gives::Void, LIVE, |c, a| waited(c, a, true, false)),
    define("pg_advisory_xact_lock", (1, 2), Gives::Void, LIVE, |c, a| waited(c, a, false, true)),
    define("pg_advisory_xact_lock_shared", (1, 2), Gives::Void, LIVE, |c, a| {
        waited(c, a, true, true)
    }),
    define("pg_try_advisory_lock", (1, 2), Gives::Bool, LIVE, |c, a| tried(c, a, false, false)),
    define("pg_try_advisory_lock_shared", (1, 2), Gives::Bool, LIVE, |c, a| {
        tried(c, a, true, false)
    }),
    define("pg_try_advisory_xact_lock", (1, 2), Gives::Bool, LIVE, |c, a| tried(c, a, false, true)),
    define("pg_try_advisory_xact_lock_shared", (1, 2), Gives::Bool, LIVE, |c, a| {
        tried(c, a, true, true)
    }),
    define("pg_advisory_unlock", (1, 2), Gives::Bool, LIVE, |c, a| unlocked(c, a, false)),
    define("pg_advisory_unlock_shared", (1, 2), Gives::Bool, LIVE, |c, a| unlocked(c, a, true)),
    define("pg_advisory_unlock_all", (0, 0), Gives::Void, LIVE, |c, _| {
        effects(c)?.unlock_all();
        Ok(nothing())
    }),
];

#[cfg(test)]
#[test]
fn functions_that_act_are_evaluated_last() {
    let names = FUNCTIONS.iter().map(|function| function.name);
    let missing: Vec<&str> = names.filter(|name| !has_effects(name)).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} are missing among those of `halcyon_plan::effects_last`"
    );
}

/// Errors: 0A000 where stored queries are bound, and nothing runs.
fn effects(context: &Context) -> Result<&dyn Effects> {
    let refused = || external(SqlError::unsupported("a function with effects where nothing runs"));
    context.live.effects().ok_or_else(refused)
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The one value of type `void`.
fn nothing() -> ScalarValue {
    text("")
}

fn key(args: &[Arg<'_>]) -> Option<AdvisoryKey> {
    match args {
        [one] => one.int().map(AdvisoryKey::One),
        [first, second] => Some(AdvisoryKey::Two(
            i32::try_from(first.int()?).ok()?,
            i32::try_from(second.int()?).ok()?,
        )),
        _ => None,
    }
}

fn taken(
    context: &Context,
    args: &[Arg<'_>],
    (shared, of_transaction): (bool, bool),
    waits: bool,
) -> Result<Option<bool>> {
    let Some(key) = key(args) else { return Ok(None) };
    let request = AdvisoryRequest { key, shared, of_transaction };
    effects(context)?.lock(request, waits).map(Some).map_err(external)
}

fn waited(context: &Context, args: &[Arg<'_>], shared: bool, of_transaction: bool) -> Outcome {
    let done = taken(context, args, (shared, of_transaction), true)?;
    Ok(done.map_or(ScalarValue::Null, |_| nothing()))
}

fn tried(context: &Context, args: &[Arg<'_>], shared: bool, of_transaction: bool) -> Outcome {
    let done = taken(context, args, (shared, of_transaction), false)?;
    Ok(done.map_or(ScalarValue::Null, truth))
}

fn unlocked(context: &Context, args: &[Arg<'_>], shared: bool) -> Outcome {
    let Some(key) = key(args) else { return Ok(ScalarValue::Null) };
    Ok(truth(effects(context)?.unlock(key, shared)))
}
