//! Work that operators spawn is the account's for which the operator runs.

use std::any::Any;

use datafusion::common::runtime::JoinSetTracer;
use futures::FutureExt;
use futures::future::BoxFuture;
use halcyon_base::memory;

/// Takes the spawner's account along to the thread that does the work.
pub(crate) struct Accounts;

type Output = Box<dyn Any + Send>;

impl JoinSetTracer for Accounts {
    fn trace_future(&self, work: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
        memory::current().working(work).boxed()
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Output + Send>,
    ) -> Box<dyn FnOnce() -> Output + Send> {
        let share = memory::current().share();
        Box::new(move || {
            let _entered = share.id().enter();
            work()
        })
    }
}
