//! The quality of a variant for the client, in each dimension.

use std::collections::HashMap;
use std::sync::Arc;

use super::ForcePriority;
use super::accept::{self, AcceptItem, Preferences};
use super::variants::FileVariant;
use crate::modules::negotiation;
use crate::work::{self, Exhausted, Meter};

/// The quality of variants without a language where others have one, so that the others come first.
const NO_LANGUAGE: f32 = 0.0001;

/// Sets every quality of a variant except that of its language.
pub(super) fn weigh(accepted: &Preferences, variant: &mut FileVariant) {
    weigh_type(accepted, variant);
    weigh_encoding(accepted, variant);
    weigh_charset(accepted, variant);
}

fn weigh_type(accepted: &Preferences, variant: &mut FileVariant) {
    let mut quality = 0.0;
    let mut is_definite = true;
    for item in &accepted.types {
        let before = variant.stars;
        // An item that matches no better than one before does not count.
        if !matches(item, variant) || before == variant.stars {
            continue;
        }
        let guesses = !accepted.is_literal && !accepted.is_weighed;
        quality = match variant.stars {
            1 if guesses => 0.01,
            2 if guesses => 0.02,
            _ => item.quality,
        };
        is_definite = variant.stars == 3;
    }
    variant.type_quality = quality;
    variant.is_definite &= is_definite;
}

fn matches(item: &AcceptItem, variant: &mut FileVariant) -> bool {
    let media_type = &variant.media_type;
    match item.name.as_slice() {
        b"*" | b"*/*" => variant.stars = variant.stars.max(1),
        [major @ .., b'*'] if major.ends_with(b"/") && media_type.starts_with(major) => {
            variant.stars = variant.stars.max(2);
        }
        name if name == media_type.as_slice() && item.level >= variant.level => {
            variant.level_matched = variant.level;
            variant.stars = 3;
        }
        _ => return false,
    }
    true
}

fn weigh_encoding(accepted: &Preferences, variant: &mut FileVariant) {
    let is_plain = is_plain(variant);
    let Some(items) = &accepted.encodings else {
        variant.encoding_quality = if is_plain { 1.0 } else { 0.5 };
        return;
    };
    let encoding = match &variant.encoding {
        Some(encoding) if !is_plain => encoding.strip_prefix(b"x-").unwrap_or(encoding),
        _ => b"identity",
    };
    let named = items
        .iter()
        .find(|item| item.name.strip_prefix(b"x-").unwrap_or(&item.name) == encoding);
    let star = || items.iter().rfind(|item| item.name == b"*");
    variant.encoding_quality = match named.or_else(star) {
        Some(item) => item.quality,
        None if is_plain => 0.0001,
        None => 0.0,
    };
}

/// Returns whether the variant has no encoding.
pub(super) fn is_plain(variant: &FileVariant) -> bool {
    matches!(variant.encoding.as_deref(), None | Some(b"" | b"7bit" | b"8bit" | b"binary"))
}

fn weigh_charset(accepted: &Preferences, variant: &mut FileVariant) {
    const LATIN: &[u8] = b"iso-8859-1";
    let Some(items) = &accepted.charsets else {
        variant.is_definite &= variant.charset.is_empty();
        return;
    };
    let charset = match variant.charset.as_slice() {
        b"" if !variant.media_type.starts_with(b"text/") || accepted.is_literal => return,
        b"" => LATIN,
        charset => charset,
    };
    if let Some(item) = items.iter().find(|item| item.name == charset) {
        variant.charset_quality = item.quality;
    } else if let Some(star) = items.iter().rfind(|item| item.name == b"*") {
        variant.charset_quality = star.quality;
        variant.is_definite = false;
    } else {
        variant.charset_quality = if charset == LATIN { 1.0 } else { 0.0 };
    }
}

/// The client's languages and LanguagePriority. Each language is compared with them once, for all
/// variants that have it.
pub(super) struct LanguageRanks<'p> {
    /// `None` where the client names none.
    items: Option<&'p [AcceptItem]>,
    priority: &'p [Box<[u8]>],
    force: ForcePriority,
    is_literal: bool,
    known: HashMap<Arc<[u8]>, LanguageRank>,
    /// Steps of comparing a language with all items and with LanguagePriority.
    comparing: u64,
    meter: Meter<'p>,
}

/// The rank of one language.
#[derive(Clone, Copy, Debug)]
struct LanguageRank {
    /// The quality of the longest range that matches.
    quality: Option<f32>,
    /// Whether the client names another kind of the language.
    is_guess: bool,
    /// The place in LanguagePriority.
    place: Option<usize>,
}

impl<'p> LanguageRanks<'p> {
    pub(super) fn new(
        config: &'p negotiation::Config,
        accepted: &'p Preferences,
        meter: Meter<'p>,
    ) -> LanguageRanks<'p> {
        let (items, force) = (accepted.languages.as_deref(), config.force_priority());
        let priority = match force.prefer || force.fallback {
            true => config.priority(),
            false => &[],
        };
        LanguageRanks {
            items,
            priority,
            force,
            is_literal: accepted.is_literal,
            known: HashMap::new(),
            comparing: 2 * items.map_or(0, accept::comparing) + 2 * priority.len() as u64,
            meter,
        }
    }

    /// Sets the quality of a variant's language, and its place in LanguagePriority. `some_have`:
    /// there are variants with a language.
    ///
    /// # Errors
    /// Where the request's budget is used up.
    pub(super) fn weigh(
        &mut self,
        variant: &mut FileVariant,
        some_have: bool,
    ) -> Result<(), Exhausted> {
        if variant.languages.is_empty() {
            if !self.is_literal {
                variant.language_quality = if some_have { NO_LANGUAGE } else { 1.0 };
            }
            return Ok(());
        }
        let ranks: Vec<LanguageRank> = variant
            .languages
            .iter()
            .map(|language| self.rank(language))
            .collect::<Result<_, _>>()?;
        match self.items {
            None => variant.is_definite = false,
            Some(items) => accepted_language(items, &ranks, variant),
        }
        let Some(place) = ranks.iter().filter_map(|rank| rank.place).min() else {
            return Ok(());
        };
        if variant.language_quality != 0.0 {
            variant.language_index = self.force.prefer.then_some(place);
        } else if self.force.fallback {
            variant.language_index = Some(place);
            variant.language_quality = NO_LANGUAGE;
            variant.is_definite = false;
        }
        Ok(())
    }

    fn rank(&mut self, language: &Arc<[u8]>) -> Result<LanguageRank, Exhausted> {
        self.meter.spend(LOOKING_UP + work::bytes(language.len()))?;
        if let Some(known) = self.known.get(language) {
            return Ok(*known);
        }
        self.meter.spend(self.comparing)?;
        let items = self.items.unwrap_or_default();
        let begins = |known: &[u8]| {
            language.len() >= known.len() && language[..known.len()].eq_ignore_ascii_case(known)
        };
        let rank = LanguageRank {
            quality: longest(items, language).map(|item| item.quality),
            is_guess: !self.is_literal && shares_prefix(items, language),
            place: self.priority.iter().position(|known| begins(known)),
        };
        self.known.insert(Arc::clone(language), rank);
        Ok(rank)
    }
}

/// The best match of any of the variant's languages: for each, the longest range that matches
/// counts, not the one of the highest quality.
fn accepted_language(items: &[AcceptItem], ranks: &[LanguageRank], variant: &mut FileVariant) {
    let mut best = ranks.iter().filter_map(|rank| rank.quality).reduce(f32::max);
    let star = match ranks.iter().any(|rank| rank.quality.is_none()) {
        true => items.iter().find(|item| item.name == b"*").map(|star| star.quality),
        false => None,
    };
    if let Some(star) = star.filter(|star| best.is_none_or(|best| *star > best)) {
        best = Some(star);
        variant.is_definite = false;
    }
    let guess = if ranks.iter().any(|rank| rank.is_guess) {
        0.001
    } else {
        0.0
    };
    variant.language_quality = best.unwrap_or(guess);
}

/// Returns the longest range that is the language or a prefix of it up to a hyphen.
fn longest<'i>(items: &'i [AcceptItem], language: &[u8]) -> Option<&'i AcceptItem> {
    let fits = |item: &&AcceptItem| {
        let rest = language.strip_prefix(item.name.as_slice());
        item.name != b"*"
            && !item.name.is_empty()
            && rest.is_some_and(|rest| matches!(rest, [] | [b'-', ..]))
    };
    // Of several of the same length, the first counts.
    items.iter().filter(fits).rev().max_by_key(|item| item.name.len())
}

/// Returns whether the client names a kind of the language: `en-us` is a weak wish for `en` and
/// `en-gb`, which counts where nothing fits.
fn shares_prefix(items: &[AcceptItem], language: &[u8]) -> bool {
    items.iter().any(|item| {
        let hyphen = item.name.iter().position(|&byte| byte == b'-');
        hyphen.is_some_and(|hyphen| language.starts_with(&item.name[..hyphen]))
    })
}

/// Steps of looking up a language that was compared before.
const LOOKING_UP: u64 = 16;
