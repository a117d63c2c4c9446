//! The context in which a site's directives are compiled.

use std::sync::Arc;

use howdah_config::OverrideClass;
use howdah_htaccess::CompileContext;
use howdah_htaccess::directive::Overrides;

use crate::sites::Site;

impl Site {
    /// Returns whether `.htaccess` files are read on this site.
    pub fn reads_htaccess(&self) -> bool {
        let config = self.config();
        config.htaccess
            && !(config.allow_override.classes.is_empty() && config.allow_override_list.is_empty())
    }

    /// Returns the context of the `.htaccess` file in `folder`, which is absolute and ends in a
    /// slash.
    pub fn htaccess_context(&self, folder: &[u8]) -> CompileContext {
        let config = self.config();
        let classes = config.allow_override.classes.iter().map(|class| match class {
            OverrideClass::AuthConfig => Overrides::AUTH_CONFIG,
            OverrideClass::FileInfo => Overrides::FILE_INFO,
            OverrideClass::Indexes => Overrides::INDEXES,
            OverrideClass::Limit => Overrides::LIMIT,
            OverrideClass::Options => Overrides::OPTIONS,
        });
        CompileContext {
            file: format!("{}.htaccess", String::from_utf8_lossy(folder)).into(),
            folder: folder.into(),
            overrides: classes.fold(Overrides::NONE, Overrides::or),
            override_list: texts(&config.allow_override_list),
            modules: texts(&config.modules),
            options: config.allow_override.options.as_deref().map(texts),
            upstreams: Some(self.upstreams()),
            ..CompileContext::default()
        }
    }

    /// Returns the directives of the configuration itself (`rules`, and keys that stand for
    /// directives), and their context where `folder` is the root. `None` if the configuration has
    /// none.
    pub fn rules(&self, folder: &[u8]) -> Option<(&str, CompileContext)> {
        let configured = self.configured.as_deref()?;
        let context = self.rules_context(folder);
        Some((
            &configured.text,
            CompileContext {
                keys: Arc::clone(&configured.keys),
                ..context
            },
        ))
    }

    /// Returns `rules` of the configuration as they are written, and their context where `folder`
    /// is the root. `None` if the configuration has none.
    pub fn written_rules(&self, folder: &[u8]) -> Option<(&str, CompileContext)> {
        Some((self.config().rules.as_deref()?, self.rules_context(folder)))
    }

    fn rules_context(&self, folder: &[u8]) -> CompileContext {
        let kind = if self.config().rules.is_some() { "rules" } else { "keys" };
        CompileContext {
            file: Arc::from(format!("{kind} of site {}", self.name())),
            folder: folder.into(),
            overrides: Overrides::ALL,
            is_server: true,
            modules: texts(&self.config().modules),
            upstreams: Some(self.upstreams()),
            ..CompileContext::default()
        }
    }

    fn upstreams(&self) -> Vec<Box<str>> {
        let upstreams = self.config().upstreams.iter();
        upstreams.map(|upstream| upstream.to_string().into()).collect()
    }

    /// Returns whether directives mean the same on both sites.
    pub(crate) fn has_directives_of(&self, other: &Site) -> bool {
        let (ours, theirs) = (self.config(), other.config());
        self.directives().is_none()
            && other.directives().is_none()
            && self.reads_htaccess() == other.reads_htaccess()
            && ours.allow_override == theirs.allow_override
            && ours.allow_override_list == theirs.allow_override_list
            && ours.modules == theirs.modules
    }
}

fn texts(texts: &[String]) -> Vec<Box<str>> {
    texts.iter().map(|text| text.as_str().into()).collect()
}
