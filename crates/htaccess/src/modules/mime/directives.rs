//! mod_mime's directives.

use std::sync::Arc;

use super::MultiviewsMatch;
use super::extension::Aspect;
use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, DirectiveResult, Overrides, Support,
};
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::mime;

/// `AddX value extension…`.
fn add(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<mime::Config>,
    aspect: Aspect,
) -> DirectiveResult {
    let value: Arc<[u8]> = call.word(0).to_ascii_lowercase().into();
    let layer = edit(shared).extensions.edit();
    for word in &call.words[1..] {
        let extension = layer.extension(extension(word));
        *extension.aspect(aspect) = Some(Arc::clone(&value));
    }
    Ok(())
}

/// `RemoveX extension…`.
fn remove(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<mime::Config>,
    aspect: Aspect,
) -> DirectiveResult {
    let layer = edit(shared).extensions.edit();
    for word in call.words {
        let name = extension(word);
        match aspect {
            // The type is removed from the server's own table as well.
            Aspect::MediaType => layer.extension(name).media_type = Some(Arc::default()),
            _ => {
                if aspect == Aspect::Handler {
                    layer.extension(name.clone()).unhandled = true;
                }
                layer.note_removed(name, aspect);
            }
        }
    }
    Ok(())
}

fn extension(word: &[u8]) -> Arc<[u8]> {
    word.strip_prefix(b".").unwrap_or(word).to_ascii_lowercase().into()
}

fn default_language(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<mime::Config>,
) -> DirectiveResult {
    edit(shared).default_language = Some(call.word(0).into());
    Ok(())
}

/// The directives of the server's own configuration.
fn not_allowed(call: &DirectiveCall<'_>, _: &mut SharedConfig<mime::Config>) -> DirectiveResult {
    Err(Complaint::new(format!("{} is not allowed here", call.name)))
}

fn multiviews_match(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<mime::Config>,
) -> DirectiveResult {
    let set = &mut edit(shared).multiviews_match;
    for (index, word) in call.words.iter().enumerate() {
        let MultiviewsMatch { any, negotiated, handlers, filters } = *set;
        let (place, conflict) = match word.to_ascii_lowercase().as_slice() {
            b"any" => (&mut set.any, negotiated || handlers || filters),
            b"negotiatedonly" => (&mut set.negotiated, any || handlers || filters),
            b"filters" => (&mut set.filters, any || negotiated),
            b"handlers" => (&mut set.handlers, any || negotiated),
            _ => {
                let message = "there are NegotiatedOnly, Handlers, Filters and Any";
                return Err(Complaint::about(index, message));
            }
        };
        *place = true;
        if conflict {
            return Err(Complaint::about(
                index,
                "Any, NegotiatedOnly, and Handlers and Filters exclude each other",
            ));
        }
    }
    Ok(())
}

macro_rules! table {
    ($(
        $name:literal $overrides:ident $arguments:ident $apply:expr,
        $summary:literal $(, $support:expr)?;
    )*) => {
        /// The module's directives.
        pub(crate) const DIRECTIVES: &[Directive<Apply<mime::Config>>] = &[$(Directive {
            name: $name,
            module: "mod_mime",
            overrides: Overrides::$overrides,
            arguments: Arguments::$arguments,
            summary: $summary,
            support: table!(@ $($support)?),
            apply: $apply,
        }),*];
    };
    (@) => { Support::Full };
    (@ $support:expr) => { $support };
}

const NO_INPUT_FILTERS: Support = Support::Ignored("there are no filters for what clients send");

const NO_OTHER_HANDLERS: Support = Support::Differs(
    "programs other than PHP's and type maps (type-map) are refused with 403; other unknown \
     handlers send the file",
);

table! {
    "AddCharset" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::Charset),
        "The charset of files with these extensions.";
    "AddEncoding" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::Encoding),
        "The compression of files with these extensions, sent as Content-Encoding.";
    "AddHandler" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::Handler),
        "The handler of files with these extensions, wherever in the name these are.",
        NO_OTHER_HANDLERS;
    "AddInputFilter" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::InputFilters),
        "Filters for what clients send to files with these extensions.", NO_INPUT_FILTERS;
    "AddLanguage" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::Language),
        "The language of files with these extensions, sent as Content-Language.";
    "AddOutputFilter" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::OutputFilters),
        "Filters that files with these extensions pass, such as DEFLATE.";
    "AddType" FILE_INFO FIRST_AND_SOME |call, shared| add(call, shared, Aspect::MediaType),
        "The media type of files with these extensions.";
    "DefaultLanguage" FILE_INFO ONE default_language,
        "The language of files whose names tell none.";
    "ModMimeUsePathInfo" NONE Flag not_allowed,
        "Whether the path behind a file's name counts as part of it.";
    "MultiviewsMatch" FILE_INFO SOME multiviews_match,
        "The files that MultiViews considers: NegotiatedOnly, Handlers, Filters, Any.";
    "RemoveCharset" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::Charset),
        "Takes away what AddCharset said.";
    "RemoveEncoding" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::Encoding),
        "Takes away what AddEncoding said.";
    "RemoveHandler" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::Handler),
        "Takes away what AddHandler said.",
        Support::Differs("scripts of PHP are not run any more and not sent either: 403; Debian's \
            Apache goes on running them");
    "RemoveInputFilter" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::InputFilters),
        "Takes away what AddInputFilter said.", NO_INPUT_FILTERS;
    "RemoveLanguage" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::Language),
        "Takes away what AddLanguage said.";
    "RemoveOutputFilter" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::OutputFilters),
        "Takes away what AddOutputFilter said.";
    "RemoveType" FILE_INFO SOME |call, shared| remove(call, shared, Aspect::MediaType),
        "Takes away the media type, also the server's own.";
    "TypesConfig" NONE ONE not_allowed,
        "Names the server's table of media types.",
        Support::Refused("it belongs to the server's own configuration");
}
