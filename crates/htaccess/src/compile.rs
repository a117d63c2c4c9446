//! From items to settings (`ap_walk_config`).

mod arguments;
mod compiler;
mod conditional;
mod elsewhere;
mod provided;
mod sections;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::mistake::Mistake;
use crate::scope::Surroundings;
use crate::settings::Settings;

pub use conditional::VERSION;
pub use provided::{PROVIDED, Provided, is_provided};
pub use sections::{SECTIONS, Section};

pub(crate) use conditional::Answers;

/// What a file of directives has become. Shared by all threads.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The file, as people know it.
    pub file: Arc<str>,
    /// What it sets for its folder.
    pub settings: Settings,
    /// The first thing wrong with it: then everything below its folder is answered with 500.
    pub mistake: Option<Box<Mistake>>,
    /// Everything that is wrong with it or worth knowing, in the order of the lines: at most
    /// [`MOST_REMARKS`].
    pub remarks: Vec<Mistake>,
    /// What `<IfFile>` asked for, and what the answer was. Where an answer has changed the file is
    /// to be compiled again.
    pub asked: Vec<(Box<[u8]>, bool)>,
}

/// How many remarks are kept of a file; there are files with tens of thousands of lines.
pub const MOST_REMARKS: usize = 1000;

/// Compiles a file of directives; to `<IfFile>`, no file is there.
pub fn compile(source: &[u8], surroundings: &Surroundings) -> Compiled {
    compile_asking(source, surroundings, &mut |_| false)
}

/// Compiles a file of directives. `exists` tells `<IfFile>` whether there is anything at an
/// absolute path.
pub fn compile_asking(
    source: &[u8],
    surroundings: &Surroundings,
    exists: &mut dyn FnMut(&[u8]) -> bool,
) -> Compiled {
    let mut conditions = conditional::Answers::new(surroundings, exists);
    let parsed = crate::language::parse(source, &mut conditions);
    let asked = conditions.asked;
    let mut compiler = compiler::Compiler::new(source, surroundings);
    let settings = compiler.run(&parsed);
    let (mistake, remarks) = compiler.finish();
    Compiled {
        file: Arc::clone(&surroundings.file),
        settings,
        mistake,
        remarks,
        asked,
    }
}
