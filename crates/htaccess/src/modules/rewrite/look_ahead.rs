//! Sub-requests of strings: `LA-U` and `LA-F`.

use std::borrow::Cow;

use super::expansion::Expansion;
use super::template::Template;
use super::variables::RewriteVariable;
use crate::evaluation_context::{EvaluationContext, SubRequestFacts};
use crate::modules::rewrite;
use crate::subrequest::{lookup_file, may_ask};
use crate::transaction::Transaction;
use crate::variables::ServerVariable;
use crate::work;

/// The results of sub-requests for the subject of a rule, where its strings ask for them.
#[derive(Debug, Default)]
pub(super) struct LookAhead {
    url: Option<SubRequestFacts>,
    file: Option<SubRequestFacts>,
}

/// Makes the sub-requests that a string with look-aheads needs. Makes none where they would never
/// end.
pub(super) fn look(
    template: &Template,
    subject: &[u8],
    config: &rewrite::Config,
    transaction: &mut Transaction<'_>,
    context: &mut dyn EvaluationContext,
) -> LookAhead {
    let mut ahead = LookAhead::default();
    if !may_ask(transaction) {
        return ahead;
    }
    let is_url = subject.starts_with(b"/");
    if template.looks_ahead(false) {
        let folder = config.base.as_deref().unwrap_or(&config.directory);
        let url = if is_url {
            subject.to_vec()
        } else {
            [folder, subject].concat()
        };
        ahead.url = Some(context.lookup(transaction, &url));
    }
    if template.looks_ahead(true) {
        // As in Apache, an absolute path is asked for as a URL.
        ahead.file = Some(if is_url {
            context.lookup(transaction, subject)
        } else {
            lookup_file(transaction, &[&*config.directory, subject].concat(), context)
        });
    }
    ahead
}

impl LookAhead {
    /// Returns the value of a variable after the sub-request for the file or for the URL; empty
    /// without one.
    pub fn value<'s>(
        &'s self,
        of_file: bool,
        variable: &'s RewriteVariable,
        expansion: &Expansion<'s, '_>,
        context: &mut dyn EvaluationContext,
    ) -> Cow<'s, [u8]> {
        let Some(found) = (if of_file { &self.file } else { &self.url }) else {
            return Cow::Borrowed(b"");
        };
        Cow::Borrowed(match variable {
            RewriteVariable::Environment(name) => {
                let meter = expansion.transaction.client.meter();
                meter.note(work::comparing(found.env.len(), name));
                match found.env.value(name) {
                    Some(value) => value,
                    None => return context.host().variable(name).unwrap_or_default().into(),
                }
            }
            RewriteVariable::Server(ServerVariable::Filename) => &found.filename,
            RewriteVariable::Server(ServerVariable::Uri) => &found.uri,
            RewriteVariable::Server(ServerVariable::RemoteUser) => {
                found.user.as_deref().unwrap_or_default()
            }
            RewriteVariable::Server(ServerVariable::PathInfo) => &found.path_info,
            RewriteVariable::Server(ServerVariable::QueryString) => {
                found.args.as_deref().unwrap_or_default()
            }
            RewriteVariable::Server(ServerVariable::AuthType) => {
                found.auth_type.unwrap_or_default().as_bytes()
            }
            RewriteVariable::Server(ServerVariable::Method) => b"GET",
            RewriteVariable::Server(ServerVariable::IsSubrequest) => b"true",
            RewriteVariable::Server(ServerVariable::Protocol) => b"INCLUDED",
            other => return other.value(expansion, context),
        })
    }
}
