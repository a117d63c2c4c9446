//! Rules and conditions of mod_rewrite that can never act, always hold, or wait for nothing.

use std::collections::HashMap;

use super::{DirectiveUse, LintReport, LintedFile};
use crate::language::Item;
use crate::mistake::{Complaint, MistakeKind};
use crate::modules::rewrite::arguments;

pub(super) fn check(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    engine(file, report);
    let mut places: HashMap<usize, SectionFacts<'_>> = HashMap::new();
    for directive in &file.uses {
        let place = places.entry(directive.scope).or_default();
        match &*directive.name {
            "rewritecond" => {
                condition(directive, place, report);
                if file.context.is_server {
                    too_early(directive, report);
                }
            }
            "rewriterule" => {
                rule(directive, place, file.context.is_server, report);
                upstream(directive, file, report);
            }
            _ => {}
        }
    }
    for place in places.values() {
        if let Some((condition, _)) = place.conditions.first() {
            let message = "this condition has no effect: no RewriteRule follows";
            report.say(MistakeKind::Doubtful, condition.item, Complaint::new(message));
        }
    }
}

/// Returns whether a rule answers with 403, 404 or 410.
pub(super) fn refuses(rule: &DirectiveUse<'_>) -> bool {
    let flags = RuleFlags::read(arguments::split(&rule.item.raw).and_then(|words| words.flags));
    flags.refuses || flags.has(&["F", "forbidden", "G", "gone"])
}

/// Facts about the rules of one section.
#[derive(Default)]
struct SectionFacts<'f> {
    /// The conditions that wait for their rule.
    conditions: Vec<(&'f DirectiveUse<'f>, FileCondition)>,
    /// The rule after which no other one is ever reached.
    end: Option<u32>,
    /// Rules without a condition that end the rewriting: pattern, whether case counts, and line.
    taken: HashMap<Vec<u8>, EndingRule>,
    /// The number of following rules that may be skipped, or that are part of a chain.
    uncertain: u32,
}

#[derive(Clone, Copy)]
struct EndingRule {
    line: u32,
    caseless: bool,
}

/// A condition that looks for a file.
#[derive(Clone, PartialEq, Eq)]
struct FileCondition {
    subject: Vec<u8>,
    pattern: Vec<u8>,
    or: bool,
}

fn engine(file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    let Some(first) = file.named("rewriterule").find(|rule| file.is_for_all(rule)) else {
        return;
    };
    let last = file.named("rewriteengine").filter(|engine| file.is_for_all(engine)).last();
    match last {
        None if file.named("rewriteengine").next().is_none() => {
            let message = "RewriteEngine is not switched on in this file: its rules act only where \
                a folder above does so";
            report.say(
                MistakeKind::Doubtful,
                first.item,
                Complaint::new(message).hint("add `RewriteEngine On`"),
            );
        }
        Some(engine)
            if engine.says(0, "off")
                && file.named("rewriteengine").any(|other| other.says(0, "on")) =>
        {
            let message = "switches off all rules of this file, those above this line as well";
            report.say(MistakeKind::Doubtful, engine.item, Complaint::new(message));
        }
        _ => {}
    }
}

fn condition<'f>(
    directive: &'f DirectiveUse<'f>,
    place: &mut SectionFacts<'f>,
    report: &mut LintReport<'_>,
) {
    let Some(words) = arguments::split(&directive.item.raw) else {
        return;
    };
    let flags = RuleFlags::read(words.flags);
    let test = FileCondition {
        subject: words.first.to_vec(),
        pattern: words.second.to_vec(),
        or: flags.has(&["OR", "ornext"]),
    };
    if let Some((_, before)) = place.conditions.last()
        && before.or
        && before.subject == test.subject
        && before.pattern != test.pattern
        && [&before.pattern, &test.pattern]
            .iter()
            .all(|pattern| matches!(&pattern[..], b"!-f" | b"!-d"))
    {
        let message = "always holds: nothing is a file and a folder at once, so one of the two \
            conditions does";
        let hint = "leave out the [OR] of the condition before";
        report.say(MistakeKind::Doubtful, directive.item, Complaint::new(message).hint(hint));
    }
    place.conditions.push((directive, test));
}

fn rule<'f>(
    directive: &'f DirectiveUse<'f>,
    place: &mut SectionFacts<'f>,
    is_server: bool,
    report: &mut LintReport<'_>,
) {
    let conditions = std::mem::take(&mut place.conditions);
    let Some(words) = arguments::split(&directive.item.raw) else {
        return;
    };
    let flags = RuleFlags::read(words.flags);
    let pattern = words.first;
    never_matches(directive.item, pattern, is_server, report);
    joined_to_host(directive.item, pattern, words.second, report);
    shadowed(directive.item, pattern, &flags, place, report);
    let certain = conditions.is_empty() && place.uncertain == 0 && !pattern.starts_with(b"!");
    place.uncertain = place.uncertain.saturating_sub(1);
    if flags.has(&["C", "chain"]) {
        // The rule after this one is skipped where this one does not match.
        place.uncertain = place.uncertain.max(1);
    } else if let Some(skipped) = flags.skipped {
        place.uncertain = place.uncertain.max(skipped);
    } else if certain && flags.ends() {
        let line = directive.item.line;
        if EVERYTHING.contains(&pattern) {
            place.end.get_or_insert(line);
        }
        let caseless = flags.has(&["NC", "nocase"]);
        place.taken.entry(pattern.to_vec()).or_insert(EndingRule { line, caseless });
    }
}

/// A rule that hands requests on to a server that the configuration does not have.
fn upstream(rule: &DirectiveUse<'_>, file: &LintedFile<'_>, report: &mut LintReport<'_>) {
    let (Some(words), Some(upstreams)) =
        (arguments::split(&rule.item.raw), &file.context.upstreams)
    else {
        return;
    };
    if !RuleFlags::read(words.flags).has(&["P", "proxy"]) {
        return;
    }
    let (server, is_known) = server(words.second, upstreams);
    if !is_known {
        let message = format!(
            "{} is none of the site's `upstreams`: what this rule is for is answered with 403",
            String::from_utf8_lossy(server)
        );
        let hint =
            "add it to the site's key `upstreams`, as in `upstreams = [\"http://127.0.0.1:3000\"]`";
        report.say(MistakeKind::Doubtful, rule.item, Complaint::new(message).hint(hint));
    }
}

/// Returns the server in a rule's URL, and whether it is one of these, or depends on the request.
fn server<'u>(url: &'u [u8], upstreams: &[Box<str>]) -> (&'u [u8], bool) {
    let bare = |url: &'u [u8]| {
        let bar = memchr::memchr(b'|', url).map_or(0, |at| at + 1);
        let start = memchr::memmem::find(&url[bar..], b"://").map_or(bar, |at| bar + at + 3);
        let length = url[start..].iter().position(|byte| b"/?#".contains(byte));
        &url[..length.map_or(url.len(), |length| start + length)]
    };
    let server = bare(url);
    let plain = plain(server);
    let is_same = |upstream: &str| {
        let named = upstream.rsplit('|').next().unwrap_or(upstream);
        [upstream, named].iter().any(|one| self::plain(one.as_bytes()) == plain)
    };
    let varies = server.iter().any(|byte| b"$%".contains(byte));
    (server, varies || upstreams.iter().any(|upstream| is_same(upstream)))
}

/// Returns an upstream's URL in small letters, without the usual port, and as one of HTTP: a
/// WebSocket is for the same server.
fn plain(url: &[u8]) -> Vec<u8> {
    let url = url.to_ascii_lowercase();
    let begin = memchr::memchr(b'|', &url).map_or(0, |at| at + 1);
    let (socket, url) = url.split_at(begin);
    let (scheme, port, rest): (&[u8], &[u8], _) = match url {
        [b'w', b's', b's', b':', rest @ ..] => (b"https:", b":443", rest),
        [b'h', b't', b't', b'p', b's', b':', rest @ ..] => (b"https:", b":443", rest),
        [b'w', b's', b':', rest @ ..] => (b"http:", b":80", rest),
        [b'h', b't', b't', b'p', b':', rest @ ..] => (b"http:", b":80", rest),
        other => (b"", b":80", other),
    };
    [socket, scheme, rest.strip_suffix(port).unwrap_or(rest)].concat()
}

/// Patterns that match every subject.
const EVERYTHING: &[&[u8]] = &[
    b"^", b"$", b".*", b"(.*)", b"^.*", b"^(.*)", b".*$", b"(.*)$", b"^.*$", b"^(.*)$", b".?",
    b"^.*?",
];

fn shadowed(
    item: &Item,
    pattern: &[u8],
    flags: &RuleFlags,
    place: &SectionFacts<'_>,
    report: &mut LintReport<'_>,
) {
    let taker = place.end.or_else(|| {
        let same = place.taken.get(pattern)?;
        (same.caseless || !flags.has(&["NC", "nocase"])).then_some(same.line)
    });
    if let Some(line) = taker {
        let message =
            format!("never acts: the rule of line {line} takes every URL that this one is for");
        report.say(MistakeKind::Shadowed, item, Complaint::about(0, message));
    }
}

/// A condition on what is only known after access was checked.
fn too_early(condition: &DirectiveUse<'_>, report: &mut LintReport<'_>) {
    let Some(words) = arguments::split(&condition.item.raw) else {
        return;
    };
    let known_late = [&b"%{REMOTE_USER}"[..], b"%{AUTH_TYPE}", b"%{REMOTE_IDENT}"];
    if known_late.iter().any(|name| memchr::memmem::find(words.first, name).is_some()) {
        let message = "is empty here: `rules` act before a password is asked for";
        let hint = "use %{LA-U:REMOTE_USER}, which looks ahead";
        report.say(MistakeKind::Doubtful, condition.item, Complaint::about(0, message).hint(hint));
    }
}

/// A redirect to another host whose name goes on with the path: the path begins without a slash.
fn joined_to_host(item: &Item, pattern: &[u8], target: &[u8], report: &mut LintReport<'_>) {
    let pattern = pattern.strip_prefix(b"^").unwrap_or(pattern);
    let is_from_start = [&b"(.*)"[..], b"(.+)"].iter().any(|group| pattern.starts_with(group));
    let Some(at) = memchr::memmem::find(target, b"://").filter(|_| is_from_start) else {
        return;
    };
    let host = &target[at + 3..];
    let end = host.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(host.len());
    let joined = host[..end].windows(2).position(|two| two == b"$1");
    if joined.is_some_and(|joined| joined > 0) {
        let message = "joins the path to the host's name: the path begins without a slash";
        let hint = "write a slash before `$1`";
        report.say(MistakeKind::Dangerous, item, Complaint::about(1, message).hint(hint));
    }
}

fn never_matches(item: &Item, pattern: &[u8], is_server: bool, report: &mut LintReport<'_>) {
    let anchored = pattern.strip_prefix(b"^/").filter(|rest| {
        !matches!(rest.first(), Some(b'?' | b'*' | b'{')) && !pattern.contains(&b'|')
    });
    if anchored.is_some() && !is_server {
        let message = "never matches: in a .htaccess the path begins behind the folder's own slash";
        let hint = "write `^` without the slash";
        report.say(MistakeKind::Shadowed, item, Complaint::about(0, message).hint(hint));
    }
    let asks = pattern
        .windows(2)
        .position(|two| two == br"\?")
        .is_some_and(|at| pattern[at..].contains(&b'='));
    if asks {
        let message = "never matches: the query is no part of what a rule's pattern sees";
        let hint = "use RewriteCond %{QUERY_STRING}";
        report.say(MistakeKind::Shadowed, item, Complaint::about(0, message).hint(hint));
    }
}

/// The flags of a rule, by name.
#[derive(Default)]
struct RuleFlags {
    names: Vec<Vec<u8>>,
    skipped: Option<u32>,
    /// `R=404` and other errors end the rules as F does.
    refuses: bool,
}

impl RuleFlags {
    fn read(field: Option<&[u8]>) -> RuleFlags {
        let mut flags = RuleFlags::default();
        let Some(field) = field else { return flags };
        // Wrong brackets are reported by the directive itself.
        let _ = arguments::each_flag(field, |name, value| {
            let number =
                || std::str::from_utf8(value).ok().and_then(|digits| digits.parse::<u32>().ok());
            if [&b"S"[..], b"skip"].iter().any(|skip| name.eq_ignore_ascii_case(skip)) {
                flags.skipped = Some(number().unwrap_or(u32::MAX));
            }
            if [&b"R"[..], b"redirect"]
                .iter()
                .any(|redirect| name.eq_ignore_ascii_case(redirect))
            {
                flags.refuses = number().is_some_and(|status| !(300..400).contains(&status));
            }
            flags.names.push(name.to_vec());
            Ok(())
        });
        flags
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|wanted| {
            self.names.iter().any(|name| name.eq_ignore_ascii_case(wanted.as_bytes()))
        })
    }

    /// Returns whether no further rule is tried once this one has matched.
    fn ends(&self) -> bool {
        self.refuses || self.has(&["L", "last", "END", "F", "forbidden", "G", "gone"])
    }
}
