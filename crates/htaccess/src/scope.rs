//! The place of a directive, as the directive sees it: the file's context and the sections
//! around it.

mod methods;

use std::sync::Arc;

use crate::mistake::DirectivePlace;
use crate::overrides::Overrides;

pub use methods::Methods;
pub(crate) use methods::limit;

/// The context of a file of directives.
#[derive(Clone, Debug, Default)]
pub struct CompileContext {
    /// The name of the file in messages.
    pub file: Arc<str>,
    /// The folder of the file, absolute, with a slash at its end. For a site's inline rules: the
    /// site's root.
    pub folder: Arc<[u8]>,
    /// Whether these are the directives of a site's configuration, which act as in `<VirtualHost>`.
    pub is_server: bool,
    /// The keys of a site's configuration that the first lines of the source stand for, one a line.
    pub keys: Arc<[KeyPlace]>,
    /// The folder that relative paths in `<IfFile>` start from (Apache's ServerRoot), absolute.
    pub root: Box<[u8]>,
    /// The classes that `AllowOverride` allows.
    pub overrides: Overrides,
    /// The directives that `AllowOverrideList` allows, too.
    pub override_list: Vec<Box<str>>,
    /// The options that `AllowOverride Options=…` allows; `None` is all.
    pub options: Option<Vec<Box<str>>>,
    /// The names that are defined for `<IfDefine>`.
    pub defines: Vec<Box<str>>,
    /// The modules that `<IfModule>` finds besides the usual ones: `brotli`.
    pub modules: Vec<Box<str>>,
    /// The values of `${name}`. Apache takes its `Define`s and the server's environment.
    pub variables: Vec<Variable>,
    /// The upstreams that rules may name, as `http://host:port` or `unix:/socket|http://host`, for
    /// [`lint`](crate::lint); `None` if they are not known.
    pub upstreams: Option<Vec<Box<str>>>,
    /// Whether a directive that is not allowed is skipped with a warning: `AllowOverride
    /// Nonfatal=Override`.
    pub nonfatal_override: bool,
    /// Whether an unknown directive is skipped with a warning: `AllowOverride Nonfatal=Unknown`.
    pub nonfatal_unknown: bool,
}

/// A place in a key of the configuration that stands for a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    /// The key in messages, in place of a file: `` `fields` of site NAME ``.
    pub key: Arc<str>,
    /// The number of the key's entry, from 1, in place of a line.
    pub entry: u32,
}

/// The name and the value of `${name}`.
pub type Variable = (Box<[u8]>, Box<[u8]>);

impl CompileContext {
    /// Returns the context of a file in a folder where everything is allowed.
    pub fn new(file: impl Into<Arc<str>>, folder: &[u8]) -> CompileContext {
        CompileContext {
            file: file.into(),
            folder: folder.into(),
            ..CompileContext::default()
        }
    }

    /// Returns whether a place is in a key of the configuration.
    pub(crate) fn is_in_key(&self, place: &DirectivePlace) -> bool {
        self.keys.iter().any(|key| key.key == place.file)
    }
}

/// The sections around a directive.
#[derive(Clone, Debug)]
pub struct Scope<'c> {
    /// The context of the file.
    pub context: &'c CompileContext,
    /// The methods of `<Limit>`; `None` is all.
    pub methods: Option<Methods>,
    /// Whether the directive is in `<Files>` or `<FilesMatch>`.
    pub in_files: bool,
    /// Whether the directive is in `<If>`, `<ElseIf>` or `<Else>`.
    pub in_condition: bool,
    /// Whether the directive is in `<RequireAll>`, `<RequireAny>` or `<RequireNone>`.
    pub in_requirement: bool,
    /// The folder of the directive, as Apache sees it (`cmd->path`), with a slash at its end.
    /// Within sections it is the argument of the section.
    pub folder: Arc<[u8]>,
}

impl Scope<'_> {
    /// Returns the scope of a directive outside of sections.
    pub fn new(context: &CompileContext) -> Scope<'_> {
        Scope {
            context,
            methods: None,
            in_files: false,
            in_condition: false,
            in_requirement: false,
            folder: Arc::clone(&context.folder),
        }
    }

    /// Returns whether a directive that Apache forbids in `<Limit>` is wrong here (`NOT_IN_LIMIT`).
    pub fn is_limited(&self) -> bool {
        self.methods.is_some() || self.in_requirement
    }
}
