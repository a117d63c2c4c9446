//! The place of a directive, as the directive sees it: the file's surroundings and the sections
//! around it.

mod methods;

use std::sync::Arc;

use crate::overrides::Overrides;

pub use methods::Methods;
pub(crate) use methods::limit;

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
