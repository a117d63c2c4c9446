//! The choice of the best variant.

use super::accept::{self, Preferences};
use super::quality::{LanguageRanks, is_plain, weigh};
use super::variants::FileVariant;
use crate::modules::negotiation;
use crate::transaction::Transaction;
use crate::work::{self, Exhausted};

/// Returns the best variant's index; `None` where none is acceptable, or where the client wants to
/// choose. Weighs every variant.
///
/// # Errors
/// Where the request's budget is used up.
pub(super) fn best(
    tx: &Transaction<'_>,
    config: &negotiation::Config,
    accepted: &Preferences,
    variants: &mut [FileVariant],
) -> Result<Option<usize>, Exhausted> {
    let preferred = tx.state.env.value(b"prefer-language");
    if preferred.is_some()
        && let Some(best) = round(tx, config, accepted, variants, preferred)?
    {
        return Ok(Some(best));
    }
    round(tx, config, accepted, variants, None)
}

fn round(
    tx: &Transaction<'_>,
    config: &negotiation::Config,
    accepted: &Preferences,
    variants: &mut [FileVariant],
    preferred: Option<&[u8]>,
) -> Result<Option<usize>, Exhausted> {
    let meter = tx.client.meter();
    let mut languages = LanguageRanks::new(config, accepted, meter);
    let lists = [Some(&accepted.types), accepted.charsets.as_ref(), accepted.encodings.as_ref()];
    let comparing: u64 = lists.into_iter().flatten().map(|items| accept::comparing(items)).sum();
    let env = &tx.state.env;
    let no_encoding = env.contains(b"no-gzip");
    let html_only = env.value(b"gzip-only-text/html") == Some(b"1");
    let some_have =
        !accepted.is_literal && variants.iter().any(|variant| !variant.languages.is_empty());
    let mut best: Option<usize> = None;
    let mut best_quality = 0.0;
    for index in 0..variants.len() {
        let variant = &mut variants[index];
        meter.spend(work::RULE + comparing + variant.languages.len() as u64)?;
        let is_encoded = !is_plain(variant) && variant.encoding.as_deref() != Some(b"identity");
        let is_html = variant.media_type.starts_with(b"text/html");
        if is_encoded && (no_encoding || (html_only && !is_html)) {
            continue;
        }
        match preferred {
            Some(language) if !variant.languages.iter().any(|own| **own == *language) => continue,
            Some(_) => (variant.language_quality, variant.is_definite) = (1.0, true),
            None => languages.weigh(variant, some_have)?,
        }
        weigh(accepted, variant);
        let variant = &variants[index];
        let other = best.map(|best| &variants[best]);
        if let Some(quality) = better(accepted, variant, other, best_quality) {
            best_quality = quality;
            best = Some(index);
        }
    }
    Ok(best.filter(|&best| !accepted.by_rvsa || variants[best].is_definite))
}

/// Returns the variant's quality, if it is better than the best so far.
fn better(
    accepted: &Preferences,
    variant: &FileVariant,
    best: Option<&FileVariant>,
    best_quality: f32,
) -> Option<f32> {
    if !accepted.may_choose {
        return None;
    }
    match accepted.by_rvsa {
        true => better_by_rvsa(variant, best, best_quality),
        false => better_by_apache(variant, best, best_quality),
    }
}

/// Compares by RFC 2296 §3.3; the encoding only breaks ties.
fn better_by_rvsa(
    variant: &FileVariant,
    best: Option<&FileVariant>,
    best_quality: f32,
) -> Option<f32> {
    let quality = variant.type_quality
        * variant.source_quality
        * variant.charset_quality
        * variant.language_quality;
    if variant.encoding_quality == 0.0 || quality <= 0.0 {
        return None;
    }
    let breaks_tie = || {
        quality == best_quality
            && best.is_some_and(|best| variant.encoding_quality > best.encoding_quality)
    };
    (quality > best_quality || breaks_tie()).then_some(quality)
}

/// Compares in Apache's own order: type, language, level of HTML, charset, encoding, length.
fn better_by_apache(
    variant: &FileVariant,
    best: Option<&FileVariant>,
    best_quality: f32,
) -> Option<f32> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let all = [
        variant.encoding_quality,
        variant.language_quality,
        variant.source_quality,
        variant.charset_quality,
        variant.type_quality,
    ];
    let quality = variant.type_quality * variant.source_quality;
    if all.contains(&0.0) || quality == 0.0 || quality < best_quality {
        return None;
    }
    let Some(best) = best.filter(|_| quality == best_quality) else {
        return Some(quality);
    };
    let place = |variant: &FileVariant| variant.language_index.unwrap_or(usize::MAX);
    let order = variant
        .language_quality
        .total_cmp(&best.language_quality)
        .then_with(|| place(best).cmp(&place(variant)))
        .then_with(|| level(variant, best))
        .then_with(|| variant.charset_quality.total_cmp(&best.charset_quality))
        .then_with(|| match (is_latin(variant), is_latin(best)) {
            (false, true) => Greater,
            _ => Equal,
        })
        .then_with(|| variant.encoding_quality.total_cmp(&best.encoding_quality))
        .then_with(|| best.length.cmp(&variant.length));
    match order {
        Greater => Some(quality),
        Equal | Less => None,
    }
}

/// Returns the highest level that the client named, else the lowest.
fn level(variant: &FileVariant, best: &FileVariant) -> std::cmp::Ordering {
    if variant.media_type != best.media_type {
        return std::cmp::Ordering::Equal;
    }
    let matched = variant.level_matched.total_cmp(&best.level_matched);
    matched.then_with(|| best.level.total_cmp(&variant.level))
}

fn is_latin(variant: &FileVariant) -> bool {
    matches!(variant.charset.as_slice(), b"" | b"iso-8859-1")
}
