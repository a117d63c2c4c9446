//! The flags of RewriteRule.

use super::arguments::each_flag;
use super::environment::Assignment;
use super::rule::{Effects, Switches};
use super::template::Template;
use crate::number;
use crate::status;

/// Reads `[flag,…]` into `effects`.
///
/// # Errors
/// The first mistake, in Apache's words behind `RewriteRule: `.
pub(super) fn read(field: &[u8], effects: &mut Effects) -> Result<(), String> {
    each_flag(field, |key, value| one(key, value, effects))
}

fn one(key: &[u8], value: &[u8], effects: &mut Effects) -> Result<(), String> {
    let name = key.to_ascii_lowercase();
    if let Some(switch) = switch(&name) {
        effects.switches = effects.switches.with(switch);
    }
    match name.as_slice() {
        b"b" | b"backrefescaping" if !value.is_empty() => {
            effects.escape.only = Some(distinct(value))
        }
        b"bne" if value.is_empty() => {
            return Err("flag 'BNE' wants a list of characters (i.e. [BNE=...])".into());
        }
        b"bne" => effects.escape.never = distinct(value),
        b"bnp" | b"backrefernoplus" => effects.escape.no_plus = true,
        b"bctls" => effects.escape.controls = true,
        b"co" | b"cookie" => effects.cookies.push(Template::new(value)?),
        b"e" | b"env" => effects.variables.push(Assignment::new(value)?),
        b"f" | b"forbidden" => effects.status = 403,
        b"g" | b"gone" => effects.status = 410,
        b"h" | b"handler" => effects.handler = Some(Template::new(value)?),
        b"n" | b"next" if !value.is_empty() => effects.rounds = number::clamped(value),
        b"r" | b"redirect" => redirect(value, effects)?,
        b"s" | b"skip" => effects.skip = number::clamped(value).max(0) as usize,
        b"t" | b"type" => effects.media_type = Some(Template::new(value)?),
        // Apache takes every flag that begins with a d, known or not.
        [b'd', ..] => {}
        known if switch(known).is_some() => {}
        _ => return Err(format!("unknown flag '{}'", String::from_utf8_lossy(key))),
    }
    Ok(())
}

/// Returns the switch of a flag, which is in small letters.
fn switch(name: &[u8]) -> Option<Switches> {
    Some(match name {
        b"b" | b"backrefescaping" | b"bctls" => Switches::ESCAPE,
        b"c" | b"chain" => Switches::CHAIN,
        b"dpi" | b"d" | b"discardpath" => Switches::DISCARD_PATH_INFO,
        b"end" => Switches::END,
        b"f" | b"forbidden" | b"g" | b"gone" => Switches::STATUS.with(Switches::KEEP),
        b"l" | b"last" => Switches::LAST,
        b"n" | b"next" => Switches::NEXT_ROUND,
        b"nc" | b"nocase" => Switches::CASELESS,
        b"ne" | b"noescape" => Switches::NO_ESCAPE,
        b"ns" | b"nosubreq" => Switches::NOT_ON_SUBREQUEST,
        b"p" | b"proxy" => Switches::PROXY,
        b"pt" | b"passthrough" => Switches::PASS_THROUGH,
        b"qsa" | b"qsappend" => Switches::QUERY_APPEND,
        b"qsd" | b"qsdiscard" => Switches::QUERY_DISCARD,
        b"qsl" | b"qslast" => Switches::QUERY_LAST,
        b"r" | b"redirect" => Switches::REDIRECT,
        b"unc" => Switches::KEEP_SLASHES,
        b"unsafeallow3f" => Switches::UNSAFE_ALLOW_3F,
        b"unsafeprefixstat" => Switches::NONE,
        _ => return None,
    })
}

/// `R=` has a number or one of three words. Another word is no status at all, which later counts as
/// 302.
fn redirect(value: &[u8], effects: &mut Effects) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    let mut status = match value.to_ascii_lowercase().as_slice() {
        b"permanent" => 301,
        b"temp" => 302,
        b"seeother" => 303,
        _ => 0,
    };
    if value[0].is_ascii_digit() {
        let code = number::clamped(value);
        status =
            u16::try_from(code).ok().filter(|&code| status::is_known(code)).ok_or_else(|| {
                let value = String::from_utf8_lossy(value);
                format!("invalid HTTP response code '{value}' for flag 'R'")
            })?;
        if !(300..400).contains(&status) {
            effects.switches = effects.switches.with(Switches::STATUS).with(Switches::KEEP);
        }
    }
    effects.status = status;
    Ok(())
}

/// Returns each byte of a list once: every byte of a capture is looked for in it.
fn distinct(list: &[u8]) -> Box<[u8]> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list.dedup();
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(field: &str) -> Result<Effects, String> {
        let mut effects = Effects::default();
        read(field.as_bytes(), &mut effects).map(|()| effects)
    }

    #[test]
    fn every_switch_has_its_long_and_short_name() {
        use Switches as S;
        let gone = S::STATUS.with(S::KEEP);
        let table = [
            ("[B]", S::ESCAPE),
            ("[backrefescaping]", S::ESCAPE),
            ("[BCTLS]", S::ESCAPE),
            ("[C]", S::CHAIN),
            ("[chain]", S::CHAIN),
            ("[DPI]", S::DISCARD_PATH_INFO),
            ("[discardpath]", S::DISCARD_PATH_INFO),
            ("[D]", S::DISCARD_PATH_INFO),
            ("[dwhatever]", S::NONE),
            ("[END]", S::END),
            ("[F]", gone),
            ("[forbidden]", gone),
            ("[G]", gone),
            ("[gone]", gone),
            ("[L]", S::LAST),
            ("[last]", S::LAST),
            ("[N]", S::NEXT_ROUND),
            ("[next=3]", S::NEXT_ROUND),
            ("[NC]", S::CASELESS),
            ("[nocase]", S::CASELESS),
            ("[NE]", S::NO_ESCAPE),
            ("[noescape]", S::NO_ESCAPE),
            ("[NS]", S::NOT_ON_SUBREQUEST),
            ("[nosubreq]", S::NOT_ON_SUBREQUEST),
            ("[P]", S::PROXY),
            ("[proxy]", S::PROXY),
            ("[PT]", S::PASS_THROUGH),
            ("[passthrough]", S::PASS_THROUGH),
            ("[QSA]", S::QUERY_APPEND),
            ("[qsappend]", S::QUERY_APPEND),
            ("[QSD]", S::QUERY_DISCARD),
            ("[qsdiscard]", S::QUERY_DISCARD),
            ("[QSL]", S::QUERY_LAST),
            ("[qslast]", S::QUERY_LAST),
            ("[R]", S::REDIRECT),
            ("[redirect=307]", S::REDIRECT),
            ("[UNC]", S::KEEP_SLASHES),
            ("[UnsafeAllow3F]", S::UNSAFE_ALLOW_3F),
            ("[UnsafePrefixStat]", S::NONE),
            ("[nc,L,qsa]", S::CASELESS.with(S::LAST).with(S::QUERY_APPEND)),
            ("[R=404]", S::REDIRECT.with(gone)),
        ];
        for (field, expected) in table {
            assert_eq!(read_all(field).unwrap().switches, expected, "{field}");
        }
    }

    #[test]
    fn statuses() {
        let table = [
            ("[R]", 302),
            ("[R=301]", 301),
            ("[R=permanent]", 301),
            ("[R=temp]", 302),
            ("[R=SeeOther]", 303),
            ("[R=whatever]", 0),
            ("[R=410]", 410),
            ("[R=500]", 500),
            ("[F]", 403),
            ("[G,R=301]", 301),
            ("[R=301,G]", 410),
        ];
        for (field, expected) in table {
            assert_eq!(read_all(field).unwrap().status, expected, "{field}");
        }
    }

    #[test]
    fn values() {
        let effects =
            read_all("[E=a:1,E=b:%{X},CO=n:v:d,T=text/x,H=php,S=3,N=5,B=& ,BNE=/,BNP]").unwrap();
        assert_eq!((effects.variables.len(), effects.cookies.len()), (2, 1));
        assert!(effects.media_type.is_some() && effects.handler.is_some());
        assert_eq!((effects.skip, effects.rounds), (3, 5));
        assert_eq!(effects.escape.only.as_deref(), Some(&b"&"[..]));
        assert_eq!((&effects.escape.never[..], effects.escape.no_plus), (&b"/"[..], true));
        assert_eq!(read_all("[S=-1]").unwrap().skip, 0);
    }

    #[test]
    fn mistakes() {
        let table = [
            ("[X]", "unknown flag 'X'"),
            ("[LL]", "unknown flag 'LL'"),
            ("[L,]", "unknown flag ''"),
            ("[]", "unknown flag ''"),
            ("[R =301]", "unknown flag 'R '"),
            ("[BNE]", "flag 'BNE' wants a list of characters (i.e. [BNE=...])"),
            ("[R=306]", "invalid HTTP response code '306' for flag 'R'"),
            ("[R=3010]", "invalid HTTP response code '3010' for flag 'R'"),
            ("L", "bad flag delimiters"),
        ];
        for (field, expected) in table {
            assert_eq!(read_all(field).unwrap_err(), expected, "{field}");
        }
    }
}
