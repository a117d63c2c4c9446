//! The module's directives and their arguments.

use super::RewriteOptions;
use super::condition::RewriteCondition;
use super::rule::RewriteRule;
use crate::directive::{Apply, Arguments, Directive, DirectiveCall, Overrides, Support};
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::rewrite;

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<rewrite::Config>>] = &[
    Directive {
        name: "RewriteEngine",
        module: "mod_rewrite",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Flag,
        summary: "Whether the rules of this folder are applied.",
        support: Support::Full,
        apply: engine,
    },
    Directive {
        name: "RewriteOptions",
        module: "mod_rewrite",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::SOME,
        summary: "The way rules are inherited and applied.",
        support: Support::Full,
        apply: options,
    },
    Directive {
        name: "RewriteBase",
        module: "mod_rewrite",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::ONE,
        summary: "The URL path of the folder, for substitutions that are relative to it.",
        support: Support::Full,
        apply: base,
    },
    Directive {
        name: "RewriteCond",
        module: "mod_rewrite",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "A condition of the next RewriteRule.",
        support: Support::Full,
        apply: condition,
    },
    Directive {
        name: "RewriteRule",
        module: "mod_rewrite",
        overrides: Overrides::FILE_INFO,
        arguments: Arguments::Raw,
        summary: "Makes a URL that matches a pattern another, a redirect, or an error.",
        support: Support::Differs(
            "no map is ever defined, since RewriteMap is not allowed in .htaccess; `P` hands \
             requests on only to the servers that the site's key `upstreams` names, and everything \
             else is 403",
        ),
        apply: rule,
    },
];

fn config<'s>(
    call: &DirectiveCall<'_>,
    shared: &'s mut SharedConfig<rewrite::Config>,
) -> &'s mut rewrite::Config {
    let config = edit(shared);
    if config.directory.is_empty() {
        // Rules in sections are relative to what the section is about: they see the whole path, and
        // what they add does not begin with a slash.
        config.directory = call.scope.folder.clone();
    }
    config
}

fn engine(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<rewrite::Config>,
) -> Result<(), Complaint> {
    config(call, shared).engine = Some(call.flag());
    Ok(())
}

fn options(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<rewrite::Config>,
) -> Result<(), Complaint> {
    let mut options = RewriteOptions::NONE;
    for (index, word) in call.words.iter().enumerate() {
        options = options.with(match word.to_ascii_lowercase().as_slice() {
            b"inherit" => RewriteOptions::INHERIT,
            b"inheritbefore" => RewriteOptions::INHERIT_BEFORE,
            b"inheritdown" => RewriteOptions::INHERIT_DOWN,
            b"inheritdownbefore" => RewriteOptions::INHERIT_DOWN_BEFORE,
            b"ignoreinherit" => RewriteOptions::IGNORE_INHERIT,
            b"allownoslash" => RewriteOptions::ALLOW_NO_SLASH,
            b"mergebase" => RewriteOptions::MERGE_BASE,
            b"ignorecontextinfo" => RewriteOptions::IGNORE_CONTEXT_INFO,
            // These are about rules of the server's own configuration; MaxRedirects has gone.
            b"allowanyuri" | b"legacyprefixdocroot" | b"unsafeprefixstat" => RewriteOptions::NONE,
            [b'm', b'a', b'x', rest @ ..] if rest.starts_with(b"redirects=") => {
                RewriteOptions::NONE
            }
            _ => {
                let word = String::from_utf8_lossy(word);
                return Err(Complaint::about(
                    index,
                    format!("RewriteOptions: unknown option '{word}'"),
                ));
            }
        });
    }
    let config = config(call, shared);
    config.options = config.options.with(options);
    config.options_set = true;
    Ok(())
}

fn base(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<rewrite::Config>,
) -> Result<(), Complaint> {
    match call.word(0) {
        [b'/', ..] => {
            config(call, shared).base = Some(call.word(0).into());
            Ok(())
        }
        _ => Err(Complaint::about(0, "RewriteBase: argument is not a valid URL")
            .hint("it begins with a slash, as in RewriteBase /blog/")),
    }
}

fn condition(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<rewrite::Config>,
) -> Result<(), Complaint> {
    let condition = RewriteCondition::new(call.raw, call.kept_place())?;
    config(call, shared).push_condition(condition);
    Ok(())
}

fn rule(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<rewrite::Config>,
) -> Result<(), Complaint> {
    let config = config(call, shared);
    let conditions = config.take_conditions();
    let rule = RewriteRule::new(call.raw, call.kept_place(), conditions)?;
    let is_server = call.scope.context.is_server;
    config.push_rule(if is_server { rule.of_server() } else { rule });
    Ok(())
}
