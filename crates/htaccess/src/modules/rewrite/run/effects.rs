//! The effects of a rule that matches.

use std::borrow::Cow;

use super::{PROXY, RewriteRun};
use crate::modules::rewrite::cookie;
use crate::modules::rewrite::environment::{self, Assignment};
use crate::modules::rewrite::expansion::RewriteError;
use crate::modules::rewrite::rule::{RewriteRule, Switches};
use crate::modules::rewrite::template::Template;
use crate::modules::rewrite::url;
use crate::modules::rewrite::variables::qualify;
use crate::work;

impl RewriteRun<'_, '_> {
    /// Returns the substitution's result; `None` where its query would begin at a `?` that came
    /// encoded in the URL, which is refused.
    ///
    /// # Errors
    /// The work is too much, or an expansion is too long.
    pub(super) fn substitute(
        &mut self,
        rule: &RewriteRule,
    ) -> Result<Option<Vec<u8>>, RewriteError> {
        let escape = rule.has(Switches::ESCAPE).then_some(&rule.effects.escape);
        let last = rule.has(Switches::QUERY_LAST);
        self.look_ahead(&rule.substitution);
        let (expansion, context, ..) = self.parts();
        let (text, is_unsafe) = rule.substitution.substitute(&expansion, context, escape, last)?;
        self.charge(text.len())?;
        if is_unsafe && !rule.has(Switches::UNSAFE_ALLOW_3F) {
            self.transaction.complain(
                Some(&rule.place),
                "AH10508: Unsafe URL with %3f URL rewritten without UnsafeAllow3F",
            );
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Makes the substitution's result the file name, and applies the flags to it.
    ///
    /// # Errors
    /// The work is too much, or an expansion is too long.
    pub(super) fn take(&mut self, rule: &RewriteRule, result: Vec<u8>) -> Result<(), RewriteError> {
        let is_relative = !result.starts_with(b"/") && url::scheme(&result).is_none();
        let mut name = if is_relative {
            [&*self.config.directory, &result].concat()
        } else {
            result
        };
        let state = &mut self.transaction.state;
        self.original_args.get_or_insert_with(|| state.args.clone());
        if rule.has(Switches::DISCARD_PATH_INFO) {
            state.path_info.clear();
        }
        url::split_query(&mut name, &mut state.args, rule.effects.switches);
        let query = state.args.as_ref().map_or(0, Vec::len);
        if query > LONGEST_QUERY {
            return Err(RewriteError::TooLong);
        }
        self.charge(query)?;
        if rule.has(Switches::PROXY) {
            let url = qualify(name, self.transaction);
            self.rename([PROXY, &url].concat());
            return Ok(());
        }
        if rule.has(Switches::REDIRECT) {
            let url = qualify(name, self.transaction);
            self.rename(url);
            self.status = rule.effects.status;
            return Ok(());
        }
        // Apache makes a path of a URL that names this site only where ServerName has a port in it,
        // which is rare; without, the client is sent there.
        if url::scheme(&name).is_some() {
            self.rename(name);
            self.status = rule.effects.status;
            return Ok(());
        }
        if !is_relative && !rule.keeps_slashes && !rule.has(Switches::KEEP_SLASHES) {
            let extra = name.iter().take_while(|&&byte| byte == b'/').count();
            name.drain(..extra.saturating_sub(1));
        }
        self.rename(name);
        self.force_type(rule)
    }

    /// Sets the variables of `E=` and the cookies of `CO=`.
    ///
    /// # Errors
    /// The work is too much, an expansion is too long, or a cookie would hold a control character.
    pub(super) fn set_variables(&mut self, rule: &RewriteRule) -> Result<(), RewriteError> {
        for assignment in &rule.effects.variables {
            self.assign(assignment)?;
        }
        for template in &rule.effects.cookies {
            let text = self.expanded(template)?;
            cookie::add(self.transaction, &text)?;
        }
        Ok(())
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), RewriteError> {
        match assignment {
            Assignment::Set { name, value } => {
                self.look_ahead(value);
                let (expansion, context, ..) = self.parts();
                let text = value.expand(&expansion, context)?;
                // Most are empty, such as a password that is handed on and was not sent.
                let text = if text.is_empty() { Vec::new() } else { text.into_owned() };
                self.charge(text.len())?;
                environment::set(self.transaction, name, &text)?;
            }
            Assignment::Unset(name) => {
                self.charge(0)?;
                self.transaction.unset_variable(name);
            }
            Assignment::Expanded(template) => {
                let text = self.expanded(template)?;
                environment::assign(self.transaction, &text)?;
            }
        }
        Ok(())
    }

    /// Keeps the type of `T=` and the handler of `H=`.
    ///
    /// # Errors
    /// The work is too much, or an expansion is too long.
    pub(super) fn force_type(&mut self, rule: &RewriteRule) -> Result<(), RewriteError> {
        let escape = rule.has(Switches::ESCAPE).then_some(&rule.effects.escape);
        let mut forced = |template: &Option<Template>| -> Result<Option<Vec<u8>>, RewriteError> {
            let Some(template) = template else {
                return Ok(None);
            };
            self.look_ahead(template);
            let (expansion, context, ..) = self.parts();
            let text = template.expand_escaped(&expansion, context, escape)?;
            Ok(Some(text.to_ascii_lowercase()).filter(|text| !text.is_empty()))
        };
        let (media_type, handler) =
            (forced(&rule.effects.media_type)?, forced(&rule.effects.handler)?);
        self.media_type = media_type.or(self.media_type.take());
        self.handler = handler.or(self.handler.take());
        Ok(())
    }

    fn expanded(&mut self, template: &Template) -> Result<Vec<u8>, RewriteError> {
        self.look_ahead(template);
        let (expansion, context, ..) = self.parts();
        let text = template.expand(&expansion, context).map(Cow::into_owned)?;
        self.charge(text.len())?;
        Ok(text)
    }

    /// Adds to Vary the request fields that the rule depended on.
    pub(super) fn note_vary(&mut self, rule: &RewriteRule) {
        let names: Vec<&[u8]> = self
            .vary
            .iter()
            .flat_map(|&at| &rule.conditions[at].vary)
            .map(|name| &**name)
            .filter(|name| self.transaction.request_field(name).is_some())
            .collect();
        if names.is_empty() {
            return;
        }
        let mut vary = self.transaction.state.fields.value(b"Vary").unwrap_or_default().to_vec();
        let looked_through = work::bytes(vary.len()) * (1 + names.len() as u64);
        self.transaction.client.meter().note(looked_through);
        for name in names {
            let mut there = vary.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            if there.any(|there| there.eq_ignore_ascii_case(name)) {
                continue;
            }
            if !vary.is_empty() {
                vary.extend_from_slice(b", ");
            }
            vary.extend_from_slice(name);
        }
        self.transaction.state.fields.set(b"Vary", &vary);
    }
}

/// The longest query; a longer one is answered with 500.
const LONGEST_QUERY: usize = 64 * 1024;
