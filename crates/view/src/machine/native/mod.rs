//! Machine code for triggers, where there is an operating system and Cranelift knows the processor.
//!
//! DBToaster turns its triggers into C++, for an ahead-of-time compiler (VLDB J. 23(2), 2014, §7);
//! here [`Code`] becomes machine code in milliseconds, while a view is created.
//!
//! Where to start: [`emit`] (operations), [`scalars`], [`entries`] (maps); [`calls`] has the
//! functions that machine code calls. The safe twin is [`super::run`], which runs the same
//! operations one by one. It runs where machine code cannot be made, and everywhere for events with
//! weights other than 1 and −1.
//!
//! Nothing unwinds through machine code. A panic of an operation that machine code calls, and of
//! functions of the program within it, is caught and goes on behind the trigger. A panic within the
//! maps themselves, which only a broken invariant causes, ends the process.

/// The address of a function.
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

/// A view whose triggers have more operations than this, all weights together, keeps to its
/// operations: Cranelift takes about a third of a second for so many.
const OPERATIONS_MAX: usize = 10_000;

/// A trigger's machine code. Parameters: the row's words, the register file as words and as its
/// type, code, maps, environment. Returns a [`calls::status`].
type Entry =
    extern "C" fn(*const u64, *mut u64, &mut Registers, &Code, &mut Maps, &mut Environment) -> u32;

/// The machine code of a trigger for one weight, by number.
#[derive(Clone, Copy)]
pub struct Function(usize);

/// Machine code of a view's triggers.
pub struct Native {
    /// The memory of the machine code; `None` once it is being freed.
    module: Option<JITModule>,
    compiled: Vec<Compiled>,
    /// The addresses of the maps and the watches for which the code was made.
    lies_at: [usize; 2],
    bytes: usize,
}

/// A function, with the number of words of a row that it reads.
struct Compiled {
    entry: Entry,
    row_words: usize,
}

fn lies_at(maps: &Maps) -> [usize; 2] {
    [maps.all.as_ptr() as usize, maps.watches.as_ptr() as usize]
}

impl Native {
    /// Compiles triggers over some maps. The error says why that is not possible.
    pub fn new(triggers: &[Trigger<'_>], maps: &Maps) -> Result<(Native, Vec<Function>), String> {
        let operations: usize = triggers.iter().map(|trigger| trigger.code.ops.len()).sum();
        if operations > OPERATIONS_MAX {
            return Err(format!("{operations} operations are more than {OPERATIONS_MAX}"));
        }
        let isa = isa()?;
        let module = JITModule::new(JITBuilder::with_isa(isa, default_libcall_names()));
        // From here on dropping `native` frees the module's memory.
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
            // The code was compiled for this processor with C's calling convention. It lies in
            // memory that has been made executable and is freed with `self`, which alone calls it.
            // SAFETY: `define` has given it the parameters and the result of `Entry`.
            let entry = unsafe { core::mem::transmute::<*const u8, Entry>(address) };
            self.compiled.push(Compiled { entry, row_words: trigger.never_null.len() });
        }
        Ok((0..triggers.len()).map(Function).collect())
    }

    /// Runs a trigger on a row.
    ///
    /// Errors: as [`super::run::run`]. Panics: if the row's length is not that of the rows for
    /// which the trigger was compiled, or the maps are not the maps.
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

    /// Bytes of machine code.
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

/// Compiles one trigger; returns its function and the number of bytes.
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

/// Cranelift's description of this processor, if Cranelift supports it.
fn isa() -> Result<OwnedTargetIsa, String> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let isa = ISA.get_or_init(|| {
        let mut flags = settings::builder();
        let verifies = if cfg!(debug_assertions) { "true" } else { "false" };
        // The code runs in this process alone, so addresses need no relocation.
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
