use howdah_http::{ResponseHead, Status};

use super::*;
use crate::response::choose_filters;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};
use crate::work::WorkBudget;

struct Exchange<'a> {
    fields: &'a str,
    env: &'a [(&'a str, &'a str)],
    head: &'a str,
    status: u16,
    length: Option<u64>,
    memory: Option<usize>,
    is_known: bool,
    is_subrequest: bool,
}

const PLAIN: Exchange<'_> = Exchange {
    fields: "Accept-Encoding: gzip, br",
    env: &[],
    head: "Content-Type: text/html; charset=utf-8\nContent-Length: 1000\nETag: \"a\"",
    status: 200,
    length: Some(1000),
    memory: None,
    is_known: false,
    is_subrequest: false,
};

/// The filters, Vary, Content-Encoding, ETag, and whether there is a length.
fn chosen(directives: &str, asked: &Exchange<'_>) -> String {
    let request = request("/", asked.fields);
    let mut tx = transaction(&request);
    tx.state.is_subrequest = asked.is_subrequest;
    asked
        .env
        .iter()
        .for_each(|(name, value)| tx.state.env.set(name.as_bytes(), value.as_bytes()));
    let mut head = ResponseHead::new(Status::new(asked.status).unwrap());
    for line in asked.head.lines() {
        let (name, value) = line.split_once(": ").unwrap();
        head.fields.push(name.as_bytes(), value.as_bytes());
    }
    let filters = choose_filters(
        &mut tx,
        &settings(directives),
        &mut Nowhere::default(),
        &mut head,
        ContentProperties {
            length: asked.length,
            memory: asked.memory,
            is_known: asked.is_known,
        },
    );
    let mut parts: Vec<String> = filters
        .iter()
        .map(|filter| match filter {
            Filter::Deflate => "deflate".to_owned(),
            Filter::Inflate(_) => "inflate".to_owned(),
            Filter::Brotli => "brotli".to_owned(),
            Filter::Zstandard => "zstandard".to_owned(),
            Filter::Substitute(_) => "substitute".to_owned(),
        })
        .collect();
    for name in ["Vary", "Content-Encoding", "ETag", "Content-Length"] {
        let value = head.fields.value(name.as_bytes()).unwrap_or(b"-");
        parts.push(String::from_utf8_lossy(value).into_owned());
    }
    parts.join(" ")
}

const ZIPPED: &str = "deflate Accept-Encoding gzip \"a-gzip\" -";
const AS_IT_IS: &str = "- - \"a\" 1000";
const BUT_VARY: &str = "Accept-Encoding - \"a\" 1000";

#[test]
fn which_filters() {
    let substituted = "substitute deflate Accept-Encoding gzip \"a-gzip\" -";
    let table = [
        ("SetOutputFilter DEFLATE", ZIPPED),
        ("SetOutputFilter deflate", ZIPPED),
        ("SetOutputFilter DEFLATE;DEFLATE", ZIPPED),
        ("SetOutputFilter NOTHING", AS_IT_IS),
        ("SetOutputFilter BROTLI_COMPRESS", "brotli Accept-Encoding br \"a-br\" -"),
        ("SetOutputFilter BROTLI_COMPRESS;DEFLATE", "brotli Accept-Encoding br \"a-br\" -"),
        ("SetOutputFilter INFLATE", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE text/html", ZIPPED),
        ("AddOutputFilterByType deflate text/css text/html", ZIPPED),
        ("AddOutputFilterByType DEFLATE text/css", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE text/*", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE TEXT/HTML", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE;SUBSTITUTE text/html\nSubstitute s/a/b/", substituted),
        ("SetOutputFilter DEFLATE;SUBSTITUTE\nSubstitute s/a/b/", substituted),
        ("SetOutputFilter SUBSTITUTE", "- - \"a\" -"),
        ("FilterProvider C DEFLATE \"%{CONTENT_TYPE} =~ m#^text/html#\"\nFilterChain C", ZIPPED),
        ("FilterProvider C DEFLATE \"resp('ETag') == 'b'\"\nFilterChain C", AS_IT_IS),
        ("FilterDeclare C\nFilterProvider C DEFLATE true\nFilterChain D", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE text/html\nFilterChain -BYTYPE:DEFLATE", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE text/html\nFilterChain !", AS_IT_IS),
        ("AddOutputFilterByType DEFLATE text/html\nFilterChain =X", AS_IT_IS),
        ("FilterProvider C DEFLATE true\nFilterChain C X\nFilterChain -C", AS_IT_IS),
        ("FilterProvider C DEFLATE true\nFilterChain X C\nFilterChain -C", AS_IT_IS),
        ("FilterProvider C DEFLATE true\nFilterChain X C\nFilterChain -X", ZIPPED),
        ("FilterProvider C DEFLATE true\nFilterChain X\nFilterChain @C", ZIPPED),
        ("FilterChain +BYTYPE:DEFLATE\nAddOutputFilterByType DEFLATE text/html", ZIPPED),
        (
            "AddOutputFilterByType DEFLATE text/html\nFilterProtocol BYTYPE:DEFLATE DEFLATE \
             change=yes",
            "deflate Accept-Encoding gzip - -",
        ),
    ];
    for (directives, expected) in table {
        assert_eq!(chosen(directives, &PLAIN), expected, "{directives}");
    }
}

#[test]
fn content_is_left_as_it_is_where_there_is_no_memory_to_compress_it() {
    let tight = |memory| Exchange { memory: Some(memory), ..PLAIN };
    let (gzip, brotli) = (Filter::Deflate.memory(), Filter::Brotli.memory());
    let substituted = "substitute Accept-Encoding - \"a\" -";
    let substitute = "SetOutputFilter DEFLATE;SUBSTITUTE\nSubstitute s/a/b/";
    for (directives, memory, expected) in [
        ("SetOutputFilter DEFLATE", gzip, ZIPPED),
        ("SetOutputFilter DEFLATE", gzip - 1, BUT_VARY),
        ("SetOutputFilter BROTLI_COMPRESS", brotli - 1, BUT_VARY),
        ("AddOutputFilterByType DEFLATE text/html", 0, BUT_VARY),
        (substitute, gzip, substituted),
        (substitute, 0, substituted),
    ] {
        assert_eq!(chosen(directives, &tight(memory)), expected, "{directives} {memory}");
    }
}

#[test]
fn a_304_has_the_fields_that_filters_give_the_200() {
    let directives = "AddOutputFilterByType DEFLATE text/html";
    for (is_known, expected) in [(true, ZIPPED), (false, AS_IT_IS)] {
        let asked = Exchange { status: 304, is_known, ..PLAIN };
        assert_eq!(chosen(directives, &asked), expected, "{is_known}");
    }
}

#[test]
fn a_client_without_brotli_gets_gzip() {
    let brotli = "brotli Accept-Encoding br \"a-br\" -";
    let rows = [
        ("SetOutputFilter BROTLI_COMPRESS", "gzip", ZIPPED),
        ("AddOutputFilterByType BROTLI_COMPRESS text/html", "gzip, br;q=0", ZIPPED),
        ("SetOutputFilter BROTLI_COMPRESS;DEFLATE", "gzip", ZIPPED),
        ("SetOutputFilter BROTLI_COMPRESS", "gzip, br", brotli),
        ("SetOutputFilter BROTLI_COMPRESS", "zstd", BUT_VARY),
        ("SetOutputFilter DEFLATE", "gzip, deflate, br, zstd", ZIPPED),
        ("SetOutputFilter BROTLI_COMPRESS", "gzip;q=0", BUT_VARY),
    ];
    for (directives, accepted, expected) in rows {
        let fields = format!("Accept-Encoding: {accepted}");
        let asked = Exchange { fields: &fields, ..PLAIN };
        assert_eq!(chosen(directives, &asked), expected, "{directives} {accepted}");
    }
}

#[test]
fn when_a_response_is_compressed() {
    let rows: [(Exchange<'_>, &str); 17] = [
        (Exchange { fields: "", ..PLAIN }, BUT_VARY),
        (Exchange { fields: "Accept-Encoding: br", ..PLAIN }, BUT_VARY),
        (
            Exchange {
                fields: "Accept-Encoding: br\nAccept-Encoding: gzip",
                ..PLAIN
            },
            ZIPPED,
        ),
        (
            Exchange {
                fields: "",
                env: &[("force-gzip", "1")],
                ..PLAIN
            },
            ZIPPED,
        ),
        (Exchange { env: &[("no-gzip", "0")], ..PLAIN }, AS_IT_IS),
        (
            Exchange {
                env: &[("gzip-only-text/html", "1")],
                ..PLAIN
            },
            ZIPPED,
        ),
        (
            Exchange {
                env: &[("gzip-only-text/html", "1")],
                head: "X: y",
                ..PLAIN
            },
            "- - - -",
        ),
        (
            Exchange {
                env: &[("gzip-only-text/html", "2")],
                head: "X: y",
                ..PLAIN
            },
            "deflate Accept-Encoding gzip - -",
        ),
        (Exchange { length: Some(68), ..PLAIN }, AS_IT_IS),
        (Exchange { length: Some(69), ..PLAIN }, ZIPPED),
        (Exchange { length: None, ..PLAIN }, ZIPPED),
        (Exchange { head: "Content-Encoding: br", ..PLAIN }, "- br - -"),
        (
            Exchange { head: "Content-Encoding: 7bit", ..PLAIN },
            "deflate Accept-Encoding 7bit, gzip - -",
        ),
        (Exchange { head: "ETag: \"\"", ..PLAIN }, "deflate Accept-Encoding gzip \"\" -"),
        (
            Exchange {
                head: "Content-Encoding: identity\nVary: Cookie",
                ..PLAIN
            },
            "deflate Cookie, Accept-Encoding gzip - -",
        ),
        (
            Exchange {
                head: "Content-Range: bytes 0-1/2",
                status: 206,
                ..PLAIN
            },
            "Accept-Encoding - - -",
        ),
        (Exchange { status: 404, ..PLAIN }, ZIPPED),
    ];
    for (asked, expected) in rows {
        let Exchange { fields, env, head, .. } = asked;
        assert_eq!(chosen("SetOutputFilter DEFLATE", &asked), expected, "{fields} {env:?} {head}");
    }
}

#[test]
fn parts_and_answers_without_content_stay_as_they_are() {
    let part = "Content-Range: bytes 0-999/5000\nContent-Length: 1000\nETag: \"a\"";
    let zipped = "Content-Encoding: gzip";
    let zipped_part = "Content-Encoding: gzip\nContent-Range: bytes 0-9/20";
    let off: &[(&str, &str)] = &[("no-brotli", "1")];
    for (filter, status, head, env, expected) in [
        ("DEFLATE", 204, PLAIN.head, PLAIN.env, AS_IT_IS),
        ("BROTLI_COMPRESS", 204, PLAIN.head, PLAIN.env, AS_IT_IS),
        ("BROTLI_COMPRESS", 200, PLAIN.head, off, AS_IT_IS),
        ("DEFLATE", 206, part, PLAIN.env, BUT_VARY),
        ("BROTLI_COMPRESS", 206, part, PLAIN.env, BUT_VARY),
        ("INFLATE", 206, zipped_part, PLAIN.env, "- gzip - -"),
        ("INFLATE", 200, zipped, PLAIN.env, "inflate - - - -"),
        ("INFLATE", 200, "Content-Encoding: x-gzip", PLAIN.env, "inflate - - - -"),
        ("INFLATE", 200, PLAIN.head, PLAIN.env, AS_IT_IS),
        ("INFLATE", 200, "Content-Encoding: br", PLAIN.env, "- br - -"),
    ] {
        let asked = Exchange { status, head, env, ..PLAIN };
        let directives = format!("SetOutputFilter {filter}");
        assert_eq!(chosen(&directives, &asked), expected, "{filter} {status} {head} {env:?}");
    }
}

#[test]
fn what_becomes_a_part_of_another_response_stays_as_it_is() {
    let zipped = "Content-Encoding: gzip";
    for (filter, head, expected) in [
        ("DEFLATE", PLAIN.head, AS_IT_IS),
        ("BROTLI_COMPRESS", PLAIN.head, AS_IT_IS),
        ("INFLATE", zipped, "- gzip - -"),
    ] {
        let asked = Exchange { head, is_subrequest: true, ..PLAIN };
        assert_eq!(chosen(&format!("SetOutputFilter {filter}"), &asked), expected, "{filter}");
    }
}

#[test]
fn by_type_only_with_200() {
    let directives = "AddOutputFilterByType DEFLATE text/html";
    assert_eq!(chosen(directives, &Exchange { status: 404, ..PLAIN }), AS_IT_IS);
    let env = &[("filter-errordocs", "1")];
    assert_eq!(chosen(directives, &Exchange { status: 404, env, ..PLAIN }), ZIPPED);
}

#[test]
fn a_weak_tag_keeps_its_weakness() {
    let asked = Exchange { head: "ETag: W/\"a\"", ..PLAIN };
    assert_eq!(
        chosen("SetOutputFilter DEFLATE", &asked),
        "deflate Accept-Encoding gzip W/\"a-gzip\" -"
    );
}

#[test]
fn what_a_script_compressed_is_inflated() {
    let asked = Exchange {
        head: "Content-Encoding: gzip",
        length: None,
        memory: None,
        ..PLAIN
    };
    let both = "inflate deflate Accept-Encoding gzip - -";
    assert_eq!(chosen("SetOutputFilter DEFLATE;INFLATE", &asked), both);
    let substituted = "SetOutputFilter SUBSTITUTE;INFLATE\nSubstitute s/a/b/";
    assert_eq!(chosen(substituted, &asked), "inflate substitute - - - -");
    // The place of a declared filter is that of the declaration.
    let inflate = "FilterProvider I INFLATE true";
    let deflate = "FilterProvider D DEFLATE true\nFilterChain D I";
    for place in ["CONTENT_SET", "PROTOCOL", "CONNECTION", "NETWORK"] {
        let late = format!("FilterDeclare I\n{inflate}\nFilterDeclare D {place}\n{deflate}");
        assert_eq!(chosen(&late, &asked), both, "{place}");
    }
    let inflated_last = format!("FilterDeclare I NETWORK\n{inflate}\n{deflate}");
    assert_eq!(chosen(&inflated_last, &asked), "inflate - - - -");
    assert_eq!(chosen(&format!("{inflate}\n{deflate}"), &asked), both);
}

#[test]
fn the_first_of_a_chain_is_taken_away_once() {
    let provider = "FilterProvider A DEFLATE true\nFilterProvider B DEFLATE true\nFilterChain";
    assert_eq!(chosen(&format!("{provider} A B A -A"), &PLAIN), ZIPPED);
    assert_eq!(chosen(&format!("{provider} A A -A"), &PLAIN), ZIPPED);
    assert_eq!(chosen(&format!("{provider} A -A"), &PLAIN), AS_IT_IS);
}

#[test]
fn folders_below() {
    let base = settings("AddOutputFilterByType DEFLATE text/html");
    let of = |add: &str| {
        let merged = base.merge(&settings(add));
        merged.filter.unwrap().smart(b"BYTYPE:DEFLATE").unwrap().providers.len()
    };
    assert_eq!(
        of("AddOutputFilterByType DEFLATE text/css\nAddOutputFilterByType DEFLATE text/xml"),
        2
    );
    assert_eq!(of("FilterChain X"), 1);
}

#[test]
fn a_filters_protocol_changes_the_head() {
    // A filter that has nothing to do: the protocol alone acts.
    let after = |flags: &str| {
        let lines = format!(
            "FilterProvider C INFLATE true\nFilterProtocol C INFLATE \"{flags}\"\nFilterChain C"
        );
        let request = request("/", "");
        let mut head = ResponseHead::new(Status::OK);
        for name in ["ETag", "Content-MD5", "Content-Length", "Last-Modified"] {
            head.fields.push(name.as_bytes(), b"x");
        }
        let mut tx = transaction(&request);
        let (mut context, any) = (Nowhere::default(), ContentProperties::default());
        let found = choose_filters(&mut tx, &settings(&lines), &mut context, &mut head, any);
        assert!(found.is_empty());
        let line = |(name, value): (&[u8], &[u8])| {
            [String::from_utf8_lossy(name), String::from_utf8_lossy(value)].join("=")
        };
        head.fields.iter().map(line).collect::<Vec<_>>().join(" ")
    };
    let all = "ETag=x Content-MD5=x Content-Length=x Last-Modified=x";
    for (flags, expected) in [
        ("change=no", all),
        ("change=yes", "Last-Modified=x"),
        ("change=yes change=no", all),
        ("CHANGE=1:1", "Content-Length=x Last-Modified=x"),
        ("cache=no", "ETag=x Content-MD5=x Content-Length=x Cache-Control=no-cache"),
        ("byteranges=no", &format!("{all} Accept-Ranges=none")),
        ("proxy=no", all),
        ("change=yes;byteranges=no", "Last-Modified=x Accept-Ranges=none"),
    ] {
        assert_eq!(after(flags), expected, "{flags}");
    }
}

#[test]
fn limits_of_unpacking() {
    let limits = |directives: &str| settings(directives).filter.unwrap_or_default().inflate;
    assert_eq!(limits(""), InflateLimits::default());
    let both = "DeflateInflateRatioLimit 10\nDeflateInflateRatioBurst 1";
    assert_eq!(limits(both), InflateLimits { ratio: Some(10), burst: Some(1) });
    let merged = settings(both).merge(&settings("DeflateInflateRatioBurst 5"));
    let merged = merged.filter.unwrap_or_default().inflate;
    assert_eq!(merged, InflateLimits { ratio: Some(10), burst: Some(5) });
}

#[test]
fn mistakes() {
    for line in [
        "AddOutputFilterByType INCLUDES text/html",
        "FilterProvider X NOTHING true",
        "FilterProtocol X change=yes",
        "FilterProvider C DEFLATE true\nFilterProtocol C INFLATE change=yes",
        "DeflateCompressionLevel 9",
        "DeflateInflateRatioLimit 0",
        "DeflateInflateRatioLimit x",
        "DeflateInflateRatioBurst 0",
        "DeflateInflateLimitRequestBody -1",
        "DeflateInflateLimitRequestBody \"\"",
    ] {
        assert!(try_settings(line).is_err(), "{line}");
    }
    for line in [
        "FilterProvider C DEFLATE true\nFilterProtocol C change=yes",
        "DeflateInflateRatioLimit 10",
        "DeflateInflateLimitRequestBody 0",
    ] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
}

#[test]
fn a_chain_of_filters_has_a_limit() {
    let chain = |count: usize| -> String {
        (0..count).map(|number| format!("FilterChain +f{number}\n")).collect()
    };
    assert!(try_settings(&chain(256)).is_ok());
    for more in ["FilterChain a", "FilterChain @a", "AddOutputFilterByType DEFLATE text/html"] {
        let mistake = try_settings(&format!("{}{more}\n", chain(256))).unwrap_err();
        assert!(mistake.message.contains("more than 256 names"), "{mistake:?}");
    }
    assert!(try_settings(&format!("{}FilterChain -f1 +a\n", chain(256))).is_ok());
}

#[test]
fn content_passes_a_bounded_number_of_filters() {
    let lines = format!("Substitute s/a/b/\nSetOutputFilter {}", "SUBSTITUTE;".repeat(600));
    let found = chosen(&lines, &PLAIN);
    assert_eq!(found.matches("substitute").count(), 16, "{found}");
}

#[test]
fn the_types_of_a_line_are_kept_once() {
    let lines = "AddOutputFilterByType DEFLATE;INFLATE text/a text/b";
    let filter = settings(lines).filter.unwrap();
    let types: Vec<_> = filter
        .smart
        .values()
        .flat_map(|smart| &smart.providers)
        .filter_map(|provider| match &provider.when {
            ProviderCondition::Types(types) => Some(types),
            ProviderCondition::Expression(_) => None,
        })
        .collect();
    assert_eq!(types.len(), 2);
    assert!(Arc::ptr_eq(types[0], types[1]));
}

#[test]
fn the_search_for_a_filter_is_counted() {
    let line = "AddOutputFilterByType DEFLATE text/a text/b text/c\n";
    let settings = settings(&line.repeat(3000));
    let request = request("/", "");
    let budget = WorkBudget::new(1_000_000);
    let mut tx = transaction(&request);
    tx.client = tx.client.within(&budget);
    let mut head = ResponseHead::new(Status::OK);
    head.fields.push(b"Content-Type", b"text/html");
    let any = ContentProperties::default();
    choose_filters(&mut tx, &settings, &mut Nowhere::default(), &mut head, any);
    assert!(budget.used() >= 3000, "{}", budget.used());
    assert!(settings.filter.unwrap().may_take_long());
}
