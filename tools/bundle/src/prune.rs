//! Empties functions that are never called, and that a linker keeps because a table of functions names them.
//!
//! An erased view of leptos (`AnyView`) holds a pointer to each of its methods, so each is linked for each view. To list
//! one more: a part of its mangled name, with the reason why no page calls it. A call would end in a trap, which the
//! tests in a browser see.

use walrus::{FunctionKind, Module};

/// Parts of the names of these functions.
///
/// * `hydrate_async`: the asynchronous way to make a page interactive, of `hydrate_lazy`. The dashboard hydrates its
///   islands at once.
const UNCALLED: [&str; 1] = ["hydrate_async"];

/// Returns the module with a trap as the body of each uncalled function, and the number of these functions.
///
/// # Errors
/// The reason, when `wasm` is no module.
pub(crate) fn empty_uncalled(wasm: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let mut module = Module::from_buffer(wasm).map_err(|reason| format!("{reason:#}"))?;
    let mut count = 0;
    for function in module.funcs.iter_mut() {
        let is_uncalled =
            function.name.as_deref().is_some_and(|name| UNCALLED.iter().any(|uncalled| name.contains(uncalled)));
        let FunctionKind::Local(local) = &mut function.kind else { continue };
        if is_uncalled {
            let mut body = local.builder_mut().func_body();
            body.instrs_mut().clear();
            body.unreachable();
            count += 1;
        }
    }
    Ok((module.emit_wasm(), count))
}

#[cfg(test)]
mod tests {
    use walrus::{FunctionBuilder, FunctionKind, Module, ModuleConfig, ValType};

    use super::empty_uncalled;

    /// Returns a module with an exported function of each name, which returns 7.
    fn module(names: &[&str]) -> Vec<u8> {
        let mut module = Module::with_config(ModuleConfig::new());
        for name in names {
            let mut builder = FunctionBuilder::new(&mut module.types, &[], &[ValType::I32]);
            builder.name((*name).to_owned());
            builder.func_body().i32_const(7);
            let id = builder.finish(Vec::new(), &mut module.funcs);
            module.exports.add(name, id);
        }
        module.emit_wasm()
    }

    #[test]
    fn uncalled_function_traps_and_others_stay() {
        let names = ["_ZN7hydrate17h0E", "_ZN5views13hydrate_async17h1E"];
        let (pruned, count) = empty_uncalled(&module(&names)).expect("a module");
        assert_eq!(count, 1);
        let pruned = Module::from_buffer(&pruned).expect("a module");
        let traps = names.map(|name| {
            let id = pruned.funcs.by_name(name).expect("it stays");
            let FunctionKind::Local(local) = &pruned.funcs.get(id).kind else { panic!("{name} is imported") };
            let body = local.block(local.entry_block());
            body.instrs.iter().any(|(instruction, _)| matches!(instruction, walrus::ir::Instr::Unreachable(_)))
        });
        assert_eq!(traps, [false, true]);
    }

    #[test]
    fn text_is_no_module() {
        assert!(empty_uncalled(b"function").is_err());
    }
}
