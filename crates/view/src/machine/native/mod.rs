//! Machine code for triggers, where there is an operating system and Cranelift knows the processor.
//!
//! DBToaster has its triggers as C++ through an ahead-of-time compiler (VLDB J. 23(2), 2014, §7); here
//! [`Code`] becomes machine code in milliseconds, while a view is created.
//!
//! Where to start: [`emit`] (operations), [`scalars`], [`entries`] (maps); [`calls`] is what the code
//! calls. The safe twin is [`super::run`], which does the same by operations; it runs wherever this
//! cannot, and events with weights other than 1 and −1 everywhere.
//!
//! Nothing unwinds through machine code. Panics of operations that it calls go around it, functions of
//! a program among them; one in the maps themselves, which only a broken invariant makes, ends the
//! process.

/// Where a function lies.
macro_rules! address {
    ($function:path) => {
        $function as *const () as usize
    };
}

mod calls;
mod emit;
mod entries;
mod scalars;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::sync::OnceLock;

use cranelift_codegen::Context;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, UserFuncName};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};

use super::code::{Code, Registers};
use super::maps::Maps;
use crate::error::ApplyError;
use crate::value::Environment;

pub use self::emit::Trigger;

/// Operations of all triggers of a view, by weight, beyond which it stays with them: Cranelift takes
/// about a third of a second for so many.
const OPERATIONS_MAX: usize = 10_000;

/// A trigger's machine code: the row's words, registers as words and as they are, code, maps,
/// environment. Gives a [`calls::status`].
type Entry =
    extern "C" fn(*const u64, *mut u64, &mut Registers, &Code, &mut Maps, &mut Environment) -> u32;

/// A trigger for one weight, by its number.
#[derive(Clone, Copy)]
pub struct Function(usize);

/// Machine code of a view's triggers.
pub struct Native {
    /// Taken when it is dropped.
    module: Option<JITModule>,
    compiled: Vec<Compiled>,
    /// Where the maps and watches lie, of which the code has addresses.
    lies_at: [usize; 2],
    bytes: usize,
}

/// A function, and how many words of a row it reads.
struct Compiled {
    entry: Entry,
    row_words: usize,
}

fn lies_at(maps: &Maps) -> [usize; 2] {
    [maps.all.as_ptr() as usize, maps.watches.as_ptr() as usize]
}

impl Native {
    /// Compiles triggers over the maps of a maps. Says why not, where that is not possible.
    pub fn new(triggers: &[Trigger<'_>], maps: &Maps) -> Result<(Native, Vec<Function>), String> {
        let operations: usize = triggers.iter().map(|trigger| trigger.code.ops.len()).sum();
        if operations > OPERATIONS_MAX {
            return Err(format!("{operations} operations are more than {OPERATIONS_MAX}"));
        }
        let isa = isa()?;
        let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        // From here on its memory is given back, whatever happens.
        let (compiled, lies_at) = (Vec::new(), lies_at(maps));
        let mut native = Native { module: Some(module), compiled, lies_at, bytes: 0 };
        let functions = native.compile(triggers, maps)?;
        Ok((native, functions))
    }

    fn compile(&mut self, triggers: &[Trigger<'_>], maps: &Maps) -> Result<Vec<Function>, String> {
        let module = self.module.as_mut().expect("not dropped yet");
        let mut context = module.make_context();
        let mut frontend = FunctionBuilderContext::new();
        let mut ids = Vec::new();
        for trigger in triggers {
            let id = define(module, &mut context, &mut frontend, trigger, maps);
            let (id, bytes) = id.map_err(|error| format!("{error}"))?;
            self.bytes += bytes;
            ids.push(id);
        }
        module.finalize_definitions().map_err(|error| format!("{error}"))?;
        for (id, trigger) in ids.into_iter().zip(triggers) {
            let address = module.get_finalized_function(id);
            // Cranelift has compiled it for this processor with the C convention, and it lies in memory
            // that has been made executable and is given back with `self`, which alone calls it.
            // SAFETY: `define` has given it the parameters and the result of `Entry`.
            let entry = unsafe { core::mem::transmute::<*const u8, Entry>(address) };
            self.compiled.push(Compiled { entry, row_words: trigger.never_null.len() });
        }
        Ok((0..triggers.len()).map(Function).collect())
    }

    /// Runs a trigger on a row.
    ///
    /// Errors: as [`super::run::run`]. Panics: if the row is not as long as those that it was compiled
    /// for, or the maps another one.
    #[inline(always)]
    pub fn run(
        &self,
        function: Function,
        row: &[u64],
        registers: &mut Registers,
        code: &Code,
        maps: &mut Maps,
        env: &mut Environment,
    ) -> Result<(), ApplyError> {
        let Compiled { entry, row_words } = &self.compiled[function.0];
        assert!(row.len() == *row_words && lies_at(maps) == self.lies_at, "what it was made for");
        let words = registers.file().as_mut_ptr();
        match entry(row.as_ptr(), words, registers, code, maps, env) {
            calls::status::DONE => Ok(()),
            status => Err(calls::error_of(status, maps)),
        }
    }

    /// Machine code, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: functions run only while this is borrowed (`Native::run`), so none does from now on.
            unsafe { module.free_memory() };
        }
    }
}

/// Compiles one trigger: its function and how many bytes that has.
fn define(
    module: &mut JITModule,
    context: &mut Context,
    frontend: &mut FunctionBuilderContext,
    trigger: &Trigger<'_>,
    maps: &Maps,
) -> Result<(FuncId, usize), Box<cranelift_module::ModuleError>> {
    let signature = &mut context.func.signature;
    signature.params.extend([AbiParam::new(I64); emit::PARAMETERS]);
    signature.returns.push(AbiParam::new(I32));
    let id = module.declare_anonymous_function(&context.func.signature)?;
    context.func.name = UserFuncName::user(0, id.as_u32());
    let builder = FunctionBuilder::new(&mut context.func, frontend);
    emit::trigger(builder, module.target_config(), trigger, maps);
    module.define_function(id, context)?;
    let bytes = context.compiled_code().map_or(0, |code| code.code_buffer().len());
    module.clear_context(context);
    Ok((id, bytes))
}

/// Cranelift's description of the processor, if Cranelift knows it.
fn isa() -> Result<OwnedTargetIsa, String> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let isa = ISA.get_or_init(|| {
        let mut flags = settings::builder();
        let verifies = if cfg!(debug_assertions) { "true" } else { "false" };
        // Addresses are those of this process: nothing is to be relocated.
        let set = [
            ("opt_level", "speed"),
            ("enable_verifier", verifies),
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
        ];
        for (name, value) in set {
            flags.set(name, value).map_err(|error| format!("{error}"))?;
        }
        let builder = cranelift_native::builder().map_err(String::from)?;
        builder.finish(settings::Flags::new(flags)).map_err(|error| format!("{error}"))
    });
    isa.clone()
}
