//! mod_autoindex's directives.

use std::sync::Arc;

use super::SortKey;
use super::items::{AutoindexItem, Description, MatchedProperty};
use super::options::{AutoindexOptions, DEFAULT_WIDTH, Width};
use crate::directive::{
    Apply, Arguments, Directive, DirectiveCall, DirectiveResult, Overrides, Support,
};
use crate::merge::{SharedConfig, edit};
use crate::mistake::Complaint;
use crate::modules::autoindex;

fn item(
    call: &DirectiveCall<'_>,
    by: MatchedProperty,
    to: &[u8],
    data: &Arc<[u8]>,
) -> Arc<AutoindexItem> {
    let to: &[u8] = match to {
        b"**DIRECTORY**" if by == MatchedProperty::Path => b"^^DIRECTORY^^",
        to => to,
    };
    Arc::new(AutoindexItem::new(by, to, &call.scope.context.folder, data))
}

/// `AddIcon icon name…`; `(TEXT,icon)` sets the icon's text.
fn add_icon(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
    by: MatchedProperty,
) -> DirectiveResult {
    let icon = call.word(0);
    let (alt, icon) = match icon {
        [b'(', inner @ ..] => {
            let end = inner.iter().position(|&byte| byte == b')');
            let inner = &inner
                [..end.ok_or_else(|| Complaint::about(0, "the closing parenthesis is missing"))?];
            let comma = inner.iter().position(|&byte| byte == b',').unwrap_or(inner.len());
            (Some(&inner[..comma]), inner.get(comma + 1..).unwrap_or_default())
        }
        icon => (None, icon),
    };
    let config = edit(shared);
    let (alt, icon) = (alt.map(Arc::from), Arc::from(icon));
    for to in &call.words[1..] {
        config.alts.extend(alt.as_ref().map(|alt| item(call, by, to, alt)));
        config.icons.push(item(call, by, to, &icon));
    }
    Ok(())
}

/// `AddAlt text name…`.
fn add_alt(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
    by: MatchedProperty,
) -> DirectiveResult {
    let alt = Arc::from(call.word(0));
    let items = call.words[1..].iter().map(|to| item(call, by, to, &alt));
    edit(shared).alts.extend(items);
    Ok(())
}

fn add_description(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
) -> DirectiveResult {
    let descriptions = &mut edit(shared).descriptions;
    let text: Arc<[u8]> = call.word(0).into();
    for pattern in &call.words[1..] {
        descriptions.push(Arc::new(Description {
            pattern: pattern[..].into(),
            text: Arc::clone(&text),
        }));
    }
    Ok(())
}

fn index_ignore(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
) -> DirectiveResult {
    let folder = &call.scope.context.folder;
    let items = call.words.iter().map(|word| {
        Arc::new(AutoindexItem {
            by: MatchedProperty::Path,
            to: word[..].into(),
            folder: Arc::clone(folder),
            data: Arc::default(),
        })
    });
    edit(shared).ignored.extend(items);
    Ok(())
}

fn index_order_default(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
) -> DirectiveResult {
    let descending = match call.word(0).to_ascii_lowercase().as_slice() {
        b"ascending" => false,
        b"descending" => true,
        _ => return Err(Complaint::about(0, "there are Ascending and Descending")),
    };
    let key = match call.word(1).to_ascii_lowercase().as_slice() {
        b"name" => SortKey::Name,
        b"date" => SortKey::Modified,
        b"size" => SortKey::Size,
        b"description" => SortKey::Description,
        _ => {
            return Err(Complaint::about(1, "there are Name, Date, Size and Description"));
        }
    };
    let config = edit(shared);
    config.key = Some(key);
    config.descending = Some(descending);
    Ok(())
}

/// `IndexOptions [+|-]option…`.
fn index_options(
    call: &DirectiveCall<'_>,
    shared: &mut SharedConfig<autoindex::Config>,
) -> DirectiveResult {
    let config = edit(shared);
    for (index, word) in call.words.iter().enumerate() {
        let (sign, word) = match &word[..] {
            [sign @ (b'+' | b'-'), word @ ..] => (Some(*sign), word),
            word => (None, word),
        };
        let about = |message: &str| Complaint::about(index, message);
        if word.eq_ignore_ascii_case(b"none") {
            if sign.is_some() {
                return Err(about("None takes neither + nor -"));
            }
            config.options.clear();
        } else if let Some(option) = AutoindexOptions::named(word) {
            config.options.say(sign, option);
        } else {
            let removes = sign == Some(b'-');
            measure(config, word, removes).map_err(about)?;
            config.options.say(sign, 0);
        }
    }
    match config.options.contradict() {
        true => Err(Complaint::new("None does not go together with other options")),
        false => Ok(()),
    }
}

/// The options with a value.
fn measure(config: &mut autoindex::Config, word: &[u8], removes: bool) -> Result<(), &'static str> {
    let equals = word.iter().position(|&byte| byte == b'=');
    let (name, value) = match equals {
        Some(equals) => (&word[..equals], Some(&word[equals + 1..])),
        None => (word, None),
    };
    if removes && value.is_some() {
        return Err("a value does not go together with -");
    }
    match (name.to_ascii_lowercase().as_slice(), value) {
        (b"iconwidth", value) => config.icon_width = icon_measure(value, removes, 20),
        (b"iconheight", value) => config.icon_height = icon_measure(value, removes, 22),
        (b"namewidth", value) => config.name_width = Some(width(value, removes, 5)?),
        (b"descriptionwidth", value) => config.description_width = Some(width(value, removes, 12)?),
        (b"type", Some(value)) => config.media_type = Some(value.into()),
        (b"charset", Some(value)) => config.charset = Some(value.into()),
        (b"useolddateformat", None) => config.old_dates = true,
        _ => return Err("there is no such option"),
    }
    Ok(())
}

fn icon_measure(value: Option<&[u8]>, removes: bool, default: u32) -> u32 {
    match value {
        Some(value) => number(value).try_into().unwrap_or(u32::MAX),
        None if removes => 0,
        None => default,
    }
}

fn width(value: Option<&[u8]>, removes: bool, least: usize) -> Result<Width, &'static str> {
    match value {
        Some([b'*', ..]) => Ok(Width::Longest),
        Some(value) => match number(value) {
            width if width != 0 && width < least => Err("this width is too small"),
            width => Ok(Width::Fixed(width.min(WIDEST))),
        },
        None if removes => Ok(Width::Fixed(DEFAULT_WIDTH)),
        None => Err("without a value it takes a -"),
    }
}

/// Reads a number that is not negative, as C's `atoi`.
fn number(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0usize, |number, digit| {
        number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
    })
}

/// The widest column: each row is filled up to its width.
const WIDEST: usize = 4096;

const fn directive(
    name: &'static str,
    arguments: Arguments,
    summary: &'static str,
    apply: Apply<autoindex::Config>,
) -> Directive<Apply<autoindex::Config>> {
    Directive {
        name,
        module: "mod_autoindex",
        overrides: Overrides::INDEXES,
        arguments,
        summary,
        support: Support::Full,
        apply,
    }
}

macro_rules! text {
    ($field:ident) => {
        |call, shared| {
            edit(shared).$field = Some(call.word(0).into());
            Ok(())
        }
    };
}

/// The module's directives.
pub(crate) const DIRECTIVES: &[Directive<Apply<autoindex::Config>>] = &[
    directive(
        "AddAlt",
        Arguments::FIRST_AND_SOME,
        "The text shown instead of the icon of files with these names.",
        |call, shared| add_alt(call, shared, MatchedProperty::Path),
    ),
    directive(
        "AddAltByEncoding",
        Arguments::FIRST_AND_SOME,
        "The text shown instead of the icon of files with these encodings.",
        |call, shared| add_alt(call, shared, MatchedProperty::Encoding),
    ),
    directive(
        "AddAltByType",
        Arguments::FIRST_AND_SOME,
        "The text shown instead of the icon of files of these media types.",
        |call, shared| add_alt(call, shared, MatchedProperty::Type),
    ),
    directive(
        "AddDescription",
        Arguments::FIRST_AND_SOME,
        "The description of files with these names in a listing.",
        add_description,
    ),
    directive(
        "AddIcon",
        Arguments::FIRST_AND_SOME,
        "The icon of files with these names; ^^DIRECTORY^^ is for folders, ^^BLANKICON^^ for the \
         heading.",
        |call, shared| add_icon(call, shared, MatchedProperty::Path),
    ),
    directive(
        "AddIconByEncoding",
        Arguments::FIRST_AND_SOME,
        "The icon of files that are compressed so.",
        |call, shared| add_icon(call, shared, MatchedProperty::Encoding),
    ),
    directive(
        "AddIconByType",
        Arguments::FIRST_AND_SOME,
        "The icon of files of these media types.",
        |call, shared| add_icon(call, shared, MatchedProperty::Type),
    ),
    directive("DefaultIcon", Arguments::ONE, "The icon of all other files.", text!(default_icon)),
    directive("HeaderName", Arguments::ONE, "The file shown above the list.", text!(header)),
    directive(
        "IndexHeadInsert",
        Arguments::ONE,
        "HTML for the head of the page.",
        text!(head_insert),
    ),
    directive("IndexIgnore", Arguments::SOME, "Names that are not listed.", index_ignore),
    directive(
        "IndexIgnoreReset",
        Arguments::Flag,
        "Whether names that folders above ignore are listed.",
        |call, shared| {
            edit(shared).forgets_ignored = call.flag();
            Ok(())
        },
    ),
    Directive {
        support: Support::Differs(
            "ScanHTMLTitles has no effect, since files are not read for a listing. Without \
             Charset it is UTF-8, as in Debian's configuration of Apache",
        ),
        ..directive(
            "IndexOptions",
            Arguments::ANY,
            "Options for the form of listings.",
            index_options,
        )
    },
    directive(
        "IndexOrderDefault",
        Arguments::TWO,
        "The order of a listing where the client asks for none.",
        index_order_default,
    ),
    directive(
        "IndexStyleSheet",
        Arguments::ONE,
        "The style sheet of a listing.",
        text!(style_sheet),
    ),
    directive("ReadmeName", Arguments::ONE, "The file shown below the list.", text!(readme)),
];
