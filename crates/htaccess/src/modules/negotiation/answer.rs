//! Response fields of the negotiation.

use std::io::Write;

use super::accept::Preferences;
use super::variants::FileVariant;
use crate::escape;
use crate::fields::append;
use crate::transaction::Transaction;

/// Sets Vary, TCN, Content-Location, Alternates, and the list for the page of an error.
pub(super) fn fields(
    tx: &mut Transaction<'_>,
    accepted: &Preferences,
    variants: &[FileVariant],
    best: Option<usize>,
) {
    let listed = listed(variants);
    let fields = &mut tx.state.error_fields;
    if accepted.supports_choice || best.is_none() {
        append(fields, b"Alternates", &alternates(listed));
    }
    let vary = vary(accepted.is_transparent, variants);
    if !vary.is_empty() {
        append(fields, b"Vary", &vary);
    }
    if accepted.is_transparent {
        let tcn: &[u8] = if best.is_some() { b"choice" } else { b"list" };
        fields.set(b"TCN", tcn);
        if let Some(best) = best {
            fields.set(b"Content-Location", &escape::segment(&variants[best].name));
        }
    }
    if best.is_none() {
        tx.state.notes.set(b"variant-list", &list(listed));
    }
}

/// Returns the variants that are listed: the first, as far as the list is not too long. The rest is
/// left out.
fn listed(variants: &[FileVariant]) -> &[FileVariant] {
    let mut left = LONGEST_LIST;
    let fits = |variant: &&FileVariant| {
        left = left.saturating_sub(variant.bytes() + AROUND);
        left > 0
    };
    &variants[..variants.iter().take_while(fits).count()]
}

/// Returns the request fields that the variants differ in, for Vary.
fn vary(is_transparent: bool, variants: &[FileVariant]) -> Vec<u8> {
    let first = &variants[0];
    let differ = |differs: &dyn Fn(&FileVariant) -> bool| variants.iter().any(differs);
    let dimensions: [(&[u8], bool); 5] = [
        (b"negotiate", is_transparent),
        (b"accept", differ(&|variant| variant.media_type != first.media_type)),
        (b"accept-language", differ(&|variant| variant.languages != first.languages)),
        (b"accept-charset", differ(&|variant| variant.charset != first.charset)),
        (b"accept-encoding", differ(&|variant| variant.encoding != first.encoding)),
    ];
    let names: Vec<&[u8]> =
        dimensions.iter().filter(|(_, varies)| *varies).map(|(name, _)| *name).collect();
    names.join(&b", "[..])
}

/// Returns the field Alternates (RFC 2295 §8.3).
fn alternates(variants: &[FileVariant]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = variants.iter().map(alternate).collect();
    entries.join(&b", "[..])
}

fn alternate(variant: &FileVariant) -> Vec<u8> {
    let quality = format!("{:.3}", variant.source_quality);
    let quality = match quality.trim_end_matches('0') {
        whole if whole.ends_with('.') => &whole[..whole.len() - 1],
        fraction => fraction,
    };
    let mut out =
        [b"{\"", &escape::segment(&variant.name)[..], b"\" ", quality.as_bytes()].concat();
    let languages = variant.languages.join(&b',');
    let parts: [(&[u8], &[u8]); 4] = [
        (b"type", &variant.media_type),
        (b"charset", &variant.charset),
        (b"language", &languages),
        (b"encoding", variant.encoding.as_deref().unwrap_or_default()),
    ];
    for (name, value) in parts.iter().filter(|(_, value)| !value.is_empty()) {
        out.extend_from_slice(&[&b" {"[..], name, &b" "[..], value, b"}"].concat());
    }
    if !variant.has_handler {
        // Writing to a Vec cannot fail.
        let _ = write!(out, " {{length {}}}", variant.length);
    }
    out.push(b'}');
    out
}

/// Returns HTML with a link for each variant.
fn list(variants: &[FileVariant]) -> Vec<u8> {
    let mut out = b"Available variants:\n<ul>\n".to_vec();
    for variant in variants {
        let name = [
            b"<li><a href=\"",
            &escape::segment(&variant.name)[..],
            b"\">",
            &escape::html(&variant.name),
            b"</a> ",
        ];
        out.extend_from_slice(&name.concat());
        let languages = variant.languages.join(&b',');
        let parts: [(&[u8], &[u8]); 4] = [
            (b"type", &variant.media_type),
            (b"language", &languages),
            (b"charset", &variant.charset),
            (b"encoding", variant.encoding.as_deref().unwrap_or_default()),
        ];
        for (name, value) in parts.iter().filter(|(_, value)| !value.is_empty()) {
            out.extend_from_slice(&[&b", "[..], name, &b" "[..], value].concat());
        }
        out.extend_from_slice(b"</li>\n");
    }
    out.extend_from_slice(b"</ul>\n");
    out
}

/// Bytes of a list of variants. No client takes a field that is longer.
const LONGEST_LIST: usize = 64 << 10;

/// Bytes around the properties of a variant in a list, about.
const AROUND: usize = 80;
