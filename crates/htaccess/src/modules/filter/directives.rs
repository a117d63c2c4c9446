//! The directives of mod_filter, mod_deflate and mod_brotli.

use std::sync::Arc;

use super::{
    FilterKind, FilterProtocol, MOST_CHAINED, Provider, ProviderCondition, RESOURCE, SmartFilter,
};
use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, DirectiveResult, Overrides, Support,
};
use crate::expression::Expression;
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::filter;

/// `AddOutputFilterByType filter[;filter]… type…`: each filter gets a smart filter of its own in
/// the chain.
fn add_output_filter_by_type(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let types: Arc<[Box<[u8]>]> = call.words[1..].iter().map(|word| word[..].into()).collect();
    for name in call.word(0).split(|&byte| byte == b';').filter(|name| !name.is_empty()) {
        let smart = [b"BYTYPE:", name].concat();
        let config = edit(shared);
        let is_new = config.smart(&smart).is_none();
        add_provider(shared, &smart, name, ProviderCondition::Types(Arc::clone(&types)))?;
        if is_new {
            edit(shared).chain.push(Some(smart.into()));
        }
    }
    short_enough(edit(shared))
}

/// `FilterDeclare name [place]`.
fn filter_declare(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let rank = match call.word(1).to_ascii_uppercase().as_slice() {
        b"CONTENT_SET" => super::CONTENT_SET,
        b"PROTOCOL" => 30,
        b"CONNECTION" => 50,
        b"NETWORK" => 60,
        _ => RESOURCE,
    };
    declare(shared, call.word(0), rank);
    Ok(())
}

/// `FilterProvider name provider expression`.
fn filter_provider(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let expression = Expression::condition(call.word(2))
        .map_err(|bad| Complaint::about(2, format!("bad expression: {}", bad.message)))?;
    add_provider(
        shared,
        call.word(0),
        call.word(1),
        ProviderCondition::Expression(Arc::new(expression)),
    )
}

/// `FilterChain [+@-!=]name…`.
fn filter_chain(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let config = edit(shared);
    for word in call.words {
        let chain = &mut config.chain;
        match word.split_first() {
            Some((b'+', name)) => chain.push(Some(name.into())),
            Some((b'@', name)) => chain.insert(0, Some(name.into())),
            Some((b'-', name)) => {
                let is_named = |entry: &Option<Arc<[u8]>>| {
                    entry.as_ref().is_some_and(|entry| entry.eq_ignore_ascii_case(name))
                };
                match chain.first() {
                    Some(first) if is_named(first) => {
                        chain.remove(0);
                    }
                    _ => chain.retain(|entry| !is_named(entry)),
                }
            }
            Some((b'!', _)) => *chain = vec![None],
            Some((b'=', name)) => *chain = vec![None, Some(name.into())],
            _ => chain.push(Some(word[..].into())),
        }
        short_enough(config)?;
    }
    Ok(())
}

fn short_enough(config: &mut filter::Config) -> DirectiveResult {
    if config.chain.len() <= MOST_CHAINED {
        return Ok(());
    }
    config.chain.clear();
    Err(Complaint::new(format!("the chain of filters has more than {MOST_CHAINED} names")))
}

/// `FilterProtocol name [provider] flags`.
fn filter_protocol(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let provider = (call.words.len() > 2).then(|| call.word(1));
    let flags = call.words.last().map(Vec::as_slice).unwrap_or_default();
    let kind = provider.and_then(FilterKind::of);
    let smart = edit(shared).smart.get_mut(call.word(0)).ok_or_else(|| {
        Complaint::about(
            0,
            "there is no such filter: it needs FilterDeclare or FilterProvider first",
        )
    })?;
    if provider.is_none() {
        // Without a provider, Apache uses the flags for requests of ranges, which are answered
        // without filters here.
        return Ok(());
    }
    let mut found = false;
    for provider in &mut Arc::make_mut(smart).providers {
        if Some(provider.kind) == kind {
            provider.protocol = protocol(flags);
            found = true;
        }
    }
    match found {
        true => Ok(()),
        false => Err(Complaint::about(1, "the filter has no such provider")),
    }
}

fn protocol(flags: &[u8]) -> FilterProtocol {
    let mut protocol = FilterProtocol::default();
    for flag in flags.split(|byte| b";, \t".contains(byte)) {
        match flag.to_ascii_lowercase().as_slice() {
            b"change=yes" => (protocol.change, protocol.change_length) = (true, true),
            b"change=no" => (protocol.change, protocol.change_length) = (false, false),
            b"change=1:1" => protocol.change = true,
            b"byteranges=no" => protocol.no_ranges = true,
            b"cache=no" => protocol.no_cache = true,
            // Its words on proxying do not concern local content.
            _ => {}
        }
    }
    protocol
}

fn declare(shared: &mut SharedConfig<filter::Config>, name: &[u8], rank: u8) {
    let filter = SmartFilter { rank, providers: Vec::new() };
    edit(shared).smart.insert(name.into(), Arc::new(filter));
}

fn add_provider(
    shared: &mut SharedConfig<filter::Config>,
    name: &[u8],
    provider: &[u8],
    when: ProviderCondition,
) -> DirectiveResult {
    let kind = FilterKind::of(provider).ok_or_else(|| {
        let provider = String::from_utf8_lossy(provider);
        Complaint::new(format!("unknown filter provider {provider}"))
            .hint("there are DEFLATE, INFLATE, BROTLI_COMPRESS and SUBSTITUTE")
    })?;
    let config = edit(shared);
    match &when {
        ProviderCondition::Types(types) => config.types += types.len(),
        ProviderCondition::Expression(_) => config.has_expressions = true,
    }
    let new = || Arc::new(SmartFilter { rank: kind.rank(), providers: Vec::new() });
    let smart = config.smart.entry(name.into()).or_insert_with(new);
    Arc::make_mut(smart).providers.push(Provider {
        kind,
        when,
        protocol: FilterProtocol::default(),
    });
    Ok(())
}

const fn directive(
    name: &'static str,
    arguments: Arguments,
    summary: &'static str,
    apply: Apply<filter::Config>,
) -> Directive<Apply<filter::Config>> {
    Directive {
        name,
        module: "mod_filter",
        overrides: Overrides::OPTIONS,
        arguments,
        summary,
        support: Support::Full,
        apply,
    }
}

/// Returns a directive of the server's own configuration.
const fn withheld(
    module: &'static str,
    name: &'static str,
    summary: &'static str,
) -> Directive<Apply<filter::Config>> {
    Directive {
        module,
        overrides: Overrides::NONE,
        support: Support::Refused("it belongs to the server's own configuration"),
        ..directive(name, Arguments::ANY, summary, |call, _| {
            Err(Complaint::new(format!("{} is not allowed here", call.name)))
        })
    }
}

/// Returns a limit for unpacking clients' compressed content, which Howdah does not unpack.
const fn inflate_limit(
    name: &'static str,
    support: Support,
    summary: &'static str,
    apply: Apply<filter::Config>,
) -> Directive<Apply<filter::Config>> {
    Directive {
        module: "mod_deflate",
        overrides: Overrides::ALL,
        support,
        ..directive(name, Arguments::ONE, summary, apply)
    }
}

fn inflate_request(
    call: &DirectiveCall<'_>,
    _: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    let word = call.word(0);
    match !word.is_empty() && word.iter().all(u8::is_ascii_digit) {
        true => Ok(()),
        false => Err(Complaint::about(0, "this has to be a number of bytes")),
    }
}

fn inflate_ratio(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    edit(shared).inflate.ratio = Some(positive(call)?);
    Ok(())
}

fn inflate_burst(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<filter::Config>,
) -> DirectiveResult {
    edit(shared).inflate.burst = Some(positive(call)?);
    Ok(())
}

fn positive(call: &DirectiveCall<'_>) -> Result<u32, Complaint> {
    let number = std::str::from_utf8(call.word(0)).ok().and_then(|word| word.parse().ok());
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| Complaint::about(0, "this has to be a positive number"))
}

/// The modules' directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<filter::Config>>] = &[
    Directive {
        overrides: Overrides::FILE_INFO,
        ..directive(
            "AddOutputFilterByType",
            Arguments::FIRST_AND_SOME,
            "Filters that responses of these media types pass, such as DEFLATE.",
            add_output_filter_by_type,
        )
    },
    Directive {
        support: Support::Differs(
            "more than 256 names are a mistake, and content passes at most 16 filters",
        ),
        ..directive(
            "FilterChain",
            Arguments::SOME,
            "Declared filters that responses pass, in order: +add, @first, -remove, =only, ! none.",
            filter_chain,
        )
    },
    directive(
        "FilterDeclare",
        Arguments::Words(1, 2),
        "Declares a filter that acts as one of its providers.",
        filter_declare,
    ),
    Directive {
        support: Support::Differs(
            "said of a filter as a whole, it has no effect: ranges are answered without filters",
        ),
        ..directive(
            "FilterProtocol",
            Arguments::Words(2, 3),
            "The effects of a filter on a response: change=yes, change=1:1, byteranges=no, \
             cache=no.",
            filter_protocol,
        )
    },
    directive(
        "FilterProvider",
        Arguments::Words(3, 3),
        "The provider of a declared filter where an expression holds.",
        filter_provider,
    ),
    withheld("mod_filter", "FilterTrace", "Logs what filters get."),
    inflate_limit(
        "DeflateInflateLimitRequestBody",
        Support::Ignored("what clients send is handed to scripts as it is"),
        "Limits what compressed request content may become.",
        inflate_request,
    ),
    inflate_limit(
        "DeflateInflateRatioBurst",
        Support::Differs("for responses only: what clients send is handed to scripts as it is"),
        "The blocks of 8,096 bytes in a row that may be over DeflateInflateRatioLimit, 3 where \
         nothing is said.",
        inflate_burst,
    ),
    inflate_limit(
        "DeflateInflateRatioLimit",
        Support::Differs("for responses only: what clients send is handed to scripts as it is"),
        "The multiple of its length that content may unpack to, 200 where nothing is said; beyond \
         it the response ends.",
        inflate_ratio,
    ),
    withheld("mod_deflate", "DeflateAlterETag", "The mark of compressed content in entity tags."),
    withheld("mod_deflate", "DeflateBufferSize", "The size of compressed blocks."),
    withheld("mod_deflate", "DeflateCompressionLevel", "The effort of DEFLATE."),
    withheld("mod_deflate", "DeflateFilterNote", "Notes how well it went."),
    withheld("mod_deflate", "DeflateMemLevel", "The memory that DEFLATE takes."),
    withheld("mod_deflate", "DeflateWindowSize", "The window of DEFLATE."),
    withheld("mod_brotli", "BrotliAlterETag", "The mark of compressed content in entity tags."),
    withheld("mod_brotli", "BrotliCompressionMaxInputBlock", "The size of compressed blocks."),
    withheld("mod_brotli", "BrotliCompressionQuality", "The effort of BROTLI_COMPRESS."),
    withheld("mod_brotli", "BrotliCompressionWindow", "The window of BROTLI_COMPRESS."),
    withheld("mod_brotli", "BrotliFilterNote", "Notes how well it went."),
];
