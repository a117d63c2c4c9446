//! From items to settings (`ap_walk_config`).

mod arguments;
mod compiler;
mod conditional;
mod elsewhere;
mod methods;
mod provided;
mod sections;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::directive::Overrides;
use crate::expression::Expression;
use crate::mistake::{Mistake, Place};
use crate::pattern::Pattern;
use crate::settings::Settings;

pub use conditional::VERSION;
pub use methods::Methods;
pub use provided::{PROVIDED, Provided, is_provided};
pub use sections::{SECTIONS, Section};

pub(crate) use compiler::DIRECTIVES;
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

/// What a file of directives is compiled for.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The file, as people know it.
    pub file: Arc<str>,
    /// The folder that the file stands in, absolute, with a slash at its end. For a site's inline
    /// rules: its root.
    pub folder: Box<[u8]>,
    /// What a relative path in `<IfFile>` starts from (Apache's ServerRoot), absolute.
    pub root: Box<[u8]>,
    /// What `AllowOverride` allows.
    pub overrides: Overrides,
    /// The directives that `AllowOverrideList` allows besides.
    pub override_list: Vec<Box<str>>,
    /// The options that `AllowOverride Options=…` allows; `None` is all.
    pub options: Option<Vec<Box<str>>>,
    /// What `<IfDefine>` finds defined.
    pub defines: Vec<Box<str>>,
    /// What stands for `${name}`: Apache takes its `Define`s and the environment of the server.
    pub variables: Vec<Variable>,
    /// The servers that rules may hand requests on to, as `http://host:port` or
    /// `unix:/socket|http://host`, for [`lint`](crate::lint); `None` if that is not known.
    pub upstreams: Option<Vec<Box<str>>>,
    /// Whether a directive that is not allowed is passed over with a warning: `AllowOverride
    /// Nonfatal=Override`.
    pub nonfatal_override: bool,
    /// Whether a directive that is not known is passed over with a warning: `AllowOverride
    /// Nonfatal=Unknown`.
    pub nonfatal_unknown: bool,
}

/// The name and the value of what stands for `${name}`.
pub type Variable = (Box<[u8]>, Box<[u8]>);

impl Surroundings {
    /// A file in a folder, where everything is allowed.
    pub fn new(file: impl Into<Arc<str>>, folder: &[u8]) -> Surroundings {
        Surroundings {
            file: file.into(),
            folder: folder.into(),
            ..Surroundings::default()
        }
    }
}

/// What a directive stands in.
#[derive(Clone, Debug)]
pub struct Scope<'c> {
    /// What the file is compiled for.
    pub surroundings: &'c Surroundings,
    /// The methods that `<Limit>` names; `None` is all.
    pub methods: Option<Methods>,
    /// Whether it stands in `<Files>` or `<FilesMatch>`.
    pub in_files: bool,
    /// Whether it stands in `<If>`, `<ElseIf>` or `<Else>`.
    pub in_condition: bool,
    /// Whether it stands in `<RequireAll>`, `<RequireAny>` or `<RequireNone>`.
    pub in_requirement: bool,
    /// What Apache takes for the folder of what stands here (`cmd->path`), with a slash at its end:
    /// within sections that is what the section is about.
    pub folder: Arc<[u8]>,
}

impl Scope<'_> {
    /// Directly in the file.
    pub fn new(surroundings: &Surroundings) -> Scope<'_> {
        Scope {
            surroundings,
            methods: None,
            in_files: false,
            in_condition: false,
            in_requirement: false,
            folder: Arc::from(&*surroundings.folder),
        }
    }

    /// Whether what Apache does not let stand in `<Limit>` is wrong here (`NOT_IN_LIMIT`).
    pub fn is_limited(&self) -> bool {
        self.methods.is_some() || self.in_requirement
    }
}

/// `<Files>` or `<FilesMatch>`.
#[derive(Clone, Debug)]
pub struct FilesSection {
    /// Where it begins.
    pub place: Arc<Place>,
    /// What it says, for people.
    pub text: Box<str>,
    /// Which names it is for.
    pub names: Names,
    /// What it sets.
    pub settings: Settings,
}

/// Which file names a section is for.
#[derive(Clone, Debug)]
pub enum Names {
    /// This one.
    Exact(Box<[u8]>),
    /// Those that the shell's pattern matches (`apr_fnmatch`).
    Wildcard(Box<[u8]>),
    /// Those that the expression matches.
    Regex(Arc<Pattern>),
}

/// `<If>`, with what follows it as `<ElseIf>` and `<Else>`.
#[derive(Clone, Debug)]
pub struct ConditionalSection {
    /// In order; the first whose condition holds applies. `<Else>` has none.
    pub branches: Vec<Branch>,
}

/// `<If>`, `<ElseIf>` or `<Else>`.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Where it begins.
    pub place: Arc<Place>,
    /// What it says, for people.
    pub text: Box<str>,
    /// When it applies; `None` is always.
    pub condition: Option<Arc<Expression>>,
    /// What it sets.
    pub settings: Settings,
}

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
