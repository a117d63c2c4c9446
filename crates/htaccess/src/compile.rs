//! The compiler of `.htaccess` files: from items to settings (`ap_walk_config`).

mod arguments;
mod compiler;
mod conditional;
mod provided;
mod sections;
#[cfg(test)]
mod tests;
mod unsupported;

use std::sync::Arc;

use crate::mistake::Mistake;
use crate::scope::CompileContext;
use crate::settings::DirectiveSettings;

pub use conditional::VERSION;
pub(crate) use provided::named;
pub use provided::{is_provided, module_names, provided};
pub use sections::{SECTIONS, Section};

pub(crate) use conditional::ConditionAnswers;

/// A compiled file of directives, shared by all threads.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The name of the file in messages.
    pub file: Arc<str>,
    /// Whether these are the directives of a site's configuration.
    pub is_server: bool,
    /// The settings for the file's folder.
    pub settings: DirectiveSettings,
    /// The first mistake. Where there is one, everything below the folder is answered with 500.
    pub mistake: Option<Box<Mistake>>,
    /// Mistakes and remarks in the order of the lines: at most [`MOST_REMARKS`].
    pub remarks: Vec<Mistake>,
    /// The paths that `<IfFile>` asked for, and the answers. Once an answer has changed, the file
    /// has to be compiled again.
    pub asked: Vec<(Box<[u8]>, bool)>,
}

/// The remarks that are kept of a file; there are files with tens of thousands of lines. Further
/// remarks are left out.
pub const MOST_REMARKS: usize = 1000;

/// Compiles a file of directives. For `<IfFile>`, no file exists.
pub fn compile(source: &[u8], context: &CompileContext) -> Compiled {
    compile_asking(source, context, &mut |_| false)
}

/// Compiles a file of directives. `exists` tells `<IfFile>` whether there is a file at an absolute
/// path.
pub fn compile_asking(
    source: &[u8],
    context: &CompileContext,
    exists: &mut dyn FnMut(&[u8]) -> bool,
) -> Compiled {
    let mut conditions = conditional::ConditionAnswers::new(context, exists);
    let parsed = crate::language::parse(source, &mut conditions);
    let asked = conditions.asked;
    let mut compiler = compiler::Compiler::new(source, context);
    let settings = compiler.run(&parsed);
    settings.prepare();
    let (mistake, remarks) = compiler.finish();
    Compiled {
        file: Arc::clone(&context.file),
        is_server: context.is_server,
        settings,
        mistake,
        remarks,
        asked,
    }
}
