//! Rules applied to a request, one after the other.

use std::borrow::Cow;

use super::Config;
use super::ahead::{self, Ahead};
use super::alternatives::Alternatives;
use super::condition::{Condition, Known, Test};
use super::cookie;
use super::index::{Course, Index};
use super::rule::{Rule, Switches};
use super::situation::{Failure, Situation};
use super::template::Template;
use super::trace;
use super::url;
use super::variables::{self, qualify};
use crate::pattern::{Candidates, Captures};
use crate::transaction::{State, Transaction};
use crate::world::World;

/// The rules on their way.
pub(super) struct Run<'a, 'r> {
    /// The request. Its file name, query and PATH_INFO are what the rules have made of them.
    pub transaction: &'a mut Transaction<'r>,
    /// The outside.
    pub world: &'a mut dyn World,
    config: &'a Config,
    /// The file name before any rule changed it; `None` while none has.
    original: Option<Vec<u8>>,
    /// The query before any rule changed the URL; `None` while none has.
    original_args: Option<Option<Vec<u8>>>,
    /// The status that a redirect has been given (`r->status`).
    pub status: u16,
    /// What `T=` demands.
    pub kind: Option<Vec<u8>>,
    /// What `H=` demands.
    pub handler: Option<Vec<u8>>,
    /// File name and PATH_INFO, where there is any.
    joined: Vec<u8>,
    /// Whether the file name has changed since they were joined.
    is_stale: bool,
    by_rule: Captures,
    by_condition: Captures,
    spare: Captures,
    ahead: Ahead,
    course: Course,
    candidates: Candidates,
    /// The conditions that held and whose request fields go into Vary.
    vary: Vec<usize>,
    /// How much work may still be done.
    work: usize,
}

/// What came of all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// None has changed the URL.
    Unchanged,
    /// The file name is another URL or path now; `escape` says that a redirect to it is to be escaped.
    Changed { escape: bool },
    /// A status is the answer.
    Status(u16),
}

/// What came of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    /// Pattern or conditions do not hold.
    Not,
    /// They do, and the URL stays.
    Kept,
    /// They do, and the URL is another.
    Changed,
    /// They do, but the URL that comes of it is refused.
    Refused,
}

/// How long a rewritten path may be: twice the 8,190 bytes of `LimitRequestLine`'s default; then 500.
const LONGEST_PATH: usize = 16_380;

/// How much work the rules may take for a request, in bytes looked at or written; then 500. A list of 5,000 rules takes a
/// thirtieth of it, a loop of 32,000 rounds with one rule a tenth. Some hundred milliseconds at worst.
const MOST_WORK: usize = 32 << 20;

/// What a rule or a condition takes at least.
const LEAST_WORK: usize = 32;

impl<'a, 'r> Run<'a, 'r> {
    /// Before the first rule.
    pub fn new(
        transaction: &'a mut Transaction<'r>,
        config: &'a Config,
        world: &'a mut dyn World,
    ) -> Run<'a, 'r> {
        Run {
            status: transaction.state.status.code(),
            transaction,
            world,
            config,
            original: None,
            original_args: None,
            kind: None,
            handler: None,
            joined: Vec::new(),
            is_stale: true,
            by_rule: Captures::default(),
            by_condition: Captures::default(),
            spare: Captures::default(),
            ahead: Ahead::default(),
            course: Course::default(),
            candidates: Candidates::default(),
            vary: Vec::new(),
            work: MOST_WORK,
        }
    }

    /// The file name before any rule changed it; `None` while none has.
    pub fn take_original(&mut self) -> Option<Vec<u8>> {
        self.original.take()
    }

    /// Whether the query, which there is, is the one that the request came with.
    pub fn has_first_query(&self) -> bool {
        self.original_args
            .as_ref()
            .is_none_or(|first| first.is_some() && *first == self.transaction.state.args)
    }

    /// Applies all rules in their order (`apply_rewrite_list`).
    pub fn all(&mut self) -> Result<Verdict, Failure> {
        let rules = &self.config.rules.list;
        // Who wants to know what happened gets every rule tried.
        let index = match self.transaction.is_traced() {
            false => self.config.rules.index(),
            true => None,
        };
        let is_subrequest = self.transaction.state.is_subrequest;
        let mut verdict = Verdict::Unchanged;
        let mut round = 1;
        let mut at = 0;
        loop {
            self.join(index);
            at = index
                .map_or(Some(at), |index| index.next(at, &self.course))
                .unwrap_or(rules.len());
            let Some(rule) = rules.get(at) else {
                return Ok(verdict);
            };
            if is_subrequest && (rule.has(Switches::NOT_ON_SUBREQUEST) || rule.has(Switches::REDIRECT)) {
                at += 1;
                continue;
            }
            let applied = self.one(rule)?;
            if applied == Applied::Not {
                while rules.get(at).is_some_and(|rule| rule.has(Switches::CHAIN)) {
                    at += 1;
                }
                at += 1;
                continue;
            }
            if self.is_too_long(rule) {
                return Ok(Verdict::Status(500));
            }
            self.note_vary(rule);
            if applied == Applied::Refused {
                return Ok(Verdict::Status(403));
            }
            if rule.has(Switches::STATUS) {
                return Ok(Verdict::Status(rule.effects.status));
            }
            if applied == Applied::Changed {
                let escape = !rule.has(Switches::NO_ESCAPE);
                verdict = Verdict::Changed { escape };
            }
            if rule.has(Switches::PASS_THROUGH) {
                let name = [PASS_THROUGH, &self.transaction.state.filename].concat();
                self.rename(name);
                return Ok(Verdict::Changed { escape: true });
            }
            if rule.has(Switches::END) {
                self.transaction.state.rewriting.ended = true;
                return Ok(verdict);
            }
            if rule.has(Switches::PROXY) || rule.has(Switches::LAST) {
                return Ok(verdict);
            }
            if rule.has(Switches::NEXT_ROUND) {
                round += 1;
                if round >= rule.effects.rounds {
                    self.complain_of_rounds(rule);
                    return Ok(Verdict::Status(500));
                }
                at = 0;
                continue;
            }
            at += 1 + rule.effects.skip;
        }
    }

    /// Applies one rule (`apply_rewrite_rule`).
    fn one(&mut self, rule: &Rule) -> Result<Applied, Failure> {
        let subject = self.subject();
        let length = subject.len();
        let matches = rule.pattern.is_match(subject)?;
        self.charge(length)?;
        if self.transaction.is_traced() {
            self.trace_pattern(rule, matches)?;
        }
        if matches == rule.negated {
            return Ok(Applied::Not);
        }
        self.by_condition.clear();
        self.vary.clear();
        if rule.conditions_refer {
            self.capture(rule)?;
        }
        if !self.conditions(rule)? {
            return Ok(Applied::Not);
        }
        if rule.output_refers && !rule.conditions_refer {
            self.capture(rule)?;
        }
        let mut result = None;
        if !rule.has(Switches::KEEP) {
            let Some(text) = self.substitute(rule)? else {
                return Ok(Applied::Refused);
            };
            result = Some(text);
        }
        self.set_variables(rule)?;
        let Some(result) = result else {
            self.force_type(rule)?;
            trace::kept(self.transaction, rule);
            return Ok(Applied::Kept);
        };
        self.take(rule, result)?;
        trace::changed(self.transaction, rule);
        Ok(Applied::Changed)
    }

    /// Whether all conditions hold that have to.
    fn conditions(&mut self, rule: &Rule) -> Result<bool, Failure> {
        let conditions = &*rule.conditions;
        let is_traced = self.transaction.is_traced();
        let mut at = 0;
        while let Some(mut condition) = conditions.get(at) {
            let list = rule
                .alternatives
                .iter()
                .find(|list| list.from == at && !is_traced);
            let holds = match list {
                Some(list) => {
                    let found = self.alternatives(condition, list)?;
                    at = found.unwrap_or(list.to - 1);
                    condition = &conditions[at];
                    found.is_some()
                }
                None => self.condition(condition, rule.captures_conditions)?,
            };
            if !holds {
                if !condition.or_next {
                    return Ok(false);
                }
                at += 1;
                continue;
            }
            if !condition.vary.is_empty() {
                self.vary.push(at);
            }
            while conditions.get(at).is_some_and(|condition| condition.or_next) {
                at += 1;
            }
            at += 1;
        }
        Ok(true)
    }

    fn condition(&mut self, condition: &Condition, captures: bool) -> Result<bool, Failure> {
        if let Test::Expression(_) = condition.test {
            return Ok(self.expression(condition));
        }
        self.look_ahead(&condition.subject);
        let is_traced = self.transaction.is_traced();
        let (situation, world, known, spare) = self.parts();
        let subject = condition.subject(&situation, world)?;
        let length = subject.len();
        let wanted = if captures || is_traced { Some(spare) } else { None };
        let captures = wanted.is_some() && !condition.negated && matches!(condition.test, Test::Regex(_));
        let decided = condition.holds(&subject, &known, world, wanted)?;
        let subject = (is_traced || decided.is_none()).then(|| subject.into_owned());
        self.charge(length)?;
        let holds = match (decided, &subject) {
            (Some(holds), _) => holds,
            (None, subject) => self.subrequest(condition, subject.as_deref().unwrap_or_default()),
        };
        if holds && captures {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        if is_traced {
            let subject = subject.unwrap_or_default();
            trace::condition(self.transaction, condition, &subject, &self.by_condition, holds);
        }
        Ok(holds)
    }

    /// The first condition of a list that holds.
    fn alternatives(&mut self, first: &Condition, list: &Alternatives) -> Result<Option<usize>, Failure> {
        self.look_ahead(&first.subject);
        let mut candidates = std::mem::take(&mut self.candidates);
        let (situation, world, _, spare) = self.parts();
        let subject = first.subject(&situation, world)?;
        let found = list.set.first_match(&subject, &mut candidates, spare)?;
        let length = subject.len();
        self.candidates = candidates;
        self.charge(length)?;
        if found.is_some() {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        Ok(found.map(|found| list.from + found))
    }

    /// A condition that takes a sub-request.
    fn subrequest(&mut self, condition: &Condition, subject: &[u8]) -> bool {
        let passes = match condition.test {
            Test::Url => ahead::is_url(self.transaction, subject, self.world),
            _ => ahead::is_file(self.transaction, subject, self.world),
        };
        passes != condition.negated
    }

    /// Makes the sub-requests that a string takes.
    fn look_ahead(&mut self, template: &Template) {
        if !template.looks_ahead(false) && !template.looks_ahead(true) {
            return;
        }
        let subject = self.subject().to_vec();
        self.ahead = ahead::look(template, &subject, self.config, self.transaction, self.world);
    }

    /// A condition that is an expression. One that cannot be evaluated does not hold.
    fn expression(&mut self, condition: &Condition) -> bool {
        let Test::Expression(expression) = &condition.test else {
            return false;
        };
        self.spare.clear();
        let result = expression.holds(self.transaction, self.world, &mut self.spare);
        let passes = *result.as_ref().unwrap_or(&false);
        if passes && !condition.negated {
            std::mem::swap(&mut self.spare, &mut self.by_condition);
        }
        let holds = passes != condition.negated;
        let text = result.err().unwrap_or_default();
        trace::condition(
            self.transaction,
            condition,
            text.as_bytes(),
            &self.by_condition,
            holds,
        );
        holds
    }

    /// The substitution's result; `None` where its query would begin at a `?` that came encoded in the URL, which is refused.
    fn substitute(&mut self, rule: &Rule) -> Result<Option<Vec<u8>>, Failure> {
        let escape = rule.has(Switches::ESCAPE).then_some(&rule.effects.escape);
        let last = rule.has(Switches::QUERY_LAST);
        self.look_ahead(&rule.substitution);
        let (situation, world, ..) = self.parts();
        let (text, is_unsafe) = rule.substitution.substitute(&situation, world, escape, last)?;
        self.charge(text.len())?;
        if is_unsafe && !rule.has(Switches::UNSAFE_ALLOW_3F) {
            self.transaction.complain(
                Some(&rule.place),
                "AH10508: Unsafe URL with %3f URL rewritten without UnsafeAllow3F",
            );
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// Makes the substitution's result the file name, and does what the flags say of it.
    fn take(&mut self, rule: &Rule, result: Vec<u8>) -> Result<(), Failure> {
        let is_relative = !result.starts_with(b"/") && url::scheme(&result).is_none();
        let mut name = if is_relative {
            [&*self.config.directory, &result].concat()
        } else {
            result
        };
        let state = &mut self.transaction.state;
        self.original_args.get_or_insert_with(|| state.args.clone());
        if rule.has(Switches::DISCARD_PATH_INFO) {
            state.path_info.clear();
        }
        url::split_query(&mut name, &mut state.args, rule.effects.switches);
        let query = state.args.as_ref().map_or(0, Vec::len);
        if query > LONGEST_QUERY {
            return Err(Failure::TooLong);
        }
        self.charge(query)?;
        if rule.has(Switches::PROXY) {
            let url = qualify(name, self.transaction);
            self.rename([PROXY, &url].concat());
            return Ok(());
        }
        if rule.has(Switches::REDIRECT) {
            let url = qualify(name, self.transaction);
            self.rename(url);
            self.status = rule.effects.status;
            return Ok(());
        }
        if let Some(path) = self.own_path(&name) {
            name = path;
        }
        if url::scheme(&name).is_some() {
            self.rename(name);
            self.status = rule.effects.status;
            return Ok(());
        }
        if !is_relative && !rule.keeps_slashes && !rule.has(Switches::KEEP_SLASHES) {
            let extra = name.iter().take_while(|&&byte| byte == b'/').count();
            name.drain(..extra.saturating_sub(1));
        }
        self.rename(name);
        self.force_type(rule)
    }

    /// The path of a URL that leads back to this site.
    fn own_path(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let (transaction, world) = (&*self.transaction, &mut *self.world);
        let request = transaction.client.request;
        let is_own = |host: &[u8], port: u16| {
            port == transaction.client.local.port()
                && (host.eq_ignore_ascii_case(request.host()) || world.is_own_name(host))
        };
        let default = variables::default_port(transaction);
        url::own_path(name, variables::scheme(transaction), default, is_own).map(<[u8]>::to_vec)
    }

    /// Sets what `E=` and `CO=` say.
    fn set_variables(&mut self, rule: &Rule) -> Result<(), Failure> {
        for template in &rule.effects.variables {
            let text = self.expanded(template)?;
            set_variable(&mut self.transaction.state, &text);
        }
        for template in &rule.effects.cookies {
            let text = self.expanded(template)?;
            cookie::add(self.transaction, &text);
        }
        Ok(())
    }

    /// Remembers what `T=` and `H=` say.
    fn force_type(&mut self, rule: &Rule) -> Result<(), Failure> {
        let escape = rule.has(Switches::ESCAPE).then_some(&rule.effects.escape);
        let mut forced = |template: &Option<Template>| -> Result<Option<Vec<u8>>, Failure> {
            let Some(template) = template else {
                return Ok(None);
            };
            self.look_ahead(template);
            let (situation, world, ..) = self.parts();
            let text = template.expand_escaped(&situation, world, escape)?;
            Ok(Some(text.to_ascii_lowercase()).filter(|text| !text.is_empty()))
        };
        let (kind, handler) = (forced(&rule.effects.kind)?, forced(&rule.effects.handler)?);
        self.kind = kind.or(self.kind.take());
        self.handler = handler.or(self.handler.take());
        Ok(())
    }

    fn expanded(&mut self, template: &Template) -> Result<Vec<u8>, Failure> {
        self.look_ahead(template);
        let (situation, world, ..) = self.parts();
        let text = template.expand(&situation, world).map(Cow::into_owned)?;
        self.charge(text.len())?;
        Ok(text)
    }

    /// Fills in what the rule's pattern captures.
    fn capture(&mut self, rule: &Rule) -> Result<(), Failure> {
        if rule.negated {
            self.by_rule.clear();
            return Ok(());
        }
        let base = whole(&self.transaction.state, &self.joined);
        let subject = base.strip_prefix(&*self.config.directory).unwrap_or(base);
        rule.pattern.captures(subject, &mut self.by_rule)?;
        Ok(())
    }

    /// Where the file name has changed: puts PATH_INFO behind it, if there is any, since rules are matched against both, and
    /// looks up which rules may match.
    fn join(&mut self, index: Option<&Index>) {
        if !self.is_stale {
            return;
        }
        let state = &self.transaction.state;
        if !state.path_info.is_empty() {
            self.joined.clear();
            self.joined.extend_from_slice(&state.filename);
            self.joined.extend_from_slice(&state.path_info);
        }
        self.is_stale = false;
        if let Some(index) = index {
            let whole = whole(state, &self.joined);
            let subject = whole.strip_prefix(&*self.config.directory).unwrap_or(whole);
            index.chart(subject, &mut self.course);
        }
    }

    /// What rules are matched against: the path below the folder that they stand in.
    fn subject(&self) -> &[u8] {
        let whole = whole(&self.transaction.state, &self.joined);
        whole.strip_prefix(&*self.config.directory).unwrap_or(whole)
    }

    /// What strings are expanded from, and what changes meanwhile.
    fn parts(&mut self) -> (Situation<'_, 'r>, &mut dyn World, Known<'_>, &mut Captures) {
        let state = &self.transaction.state;
        let situation = Situation {
            transaction: &*self.transaction,
            ahead: &self.ahead,
            rule: &self.by_rule,
            condition: &self.by_condition,
        };
        let known = Known {
            filename: self.original.as_deref().unwrap_or(&state.filename),
            found: state.found,
        };
        (situation, &mut *self.world, known, &mut self.spare)
    }

    fn rename(&mut self, name: Vec<u8>) {
        let before = std::mem::replace(&mut self.transaction.state.filename, name);
        self.original.get_or_insert(before);
        self.is_stale = true;
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Failure> {
        self.work = self
            .work
            .checked_sub(bytes + LEAST_WORK)
            .ok_or(Failure::TooMuch)?;
        Ok(())
    }

    fn is_too_long(&mut self, rule: &Rule) -> bool {
        let is_too_long = self.transaction.state.filename.len() > LONGEST_PATH;
        if is_too_long {
            let message = format!(
                "RewriteRule '{}' and URI '{}' exceeded maximum length ({LONGEST_PATH})",
                String::from_utf8_lossy(rule.pattern.text()),
                String::from_utf8_lossy(&self.transaction.state.uri)
            );
            self.transaction.complain(Some(&rule.place), message);
        }
        is_too_long
    }

    fn complain_of_rounds(&mut self, rule: &Rule) {
        let message = format!(
            "AH02596: RewriteRule '{}' and URI '{}' exceeded maximum number of rounds ({}) via the [N] flag",
            String::from_utf8_lossy(rule.pattern.text()),
            String::from_utf8_lossy(&self.transaction.state.uri),
            rule.effects.rounds
        );
        self.transaction.complain(Some(&rule.place), message);
    }

    /// Adds the request fields that the rule depended on to Vary.
    fn note_vary(&mut self, rule: &Rule) {
        let request = self.transaction.request_fields();
        let names: Vec<&[u8]> = self
            .vary
            .iter()
            .flat_map(|&at| &rule.conditions[at].vary)
            .map(|name| &**name)
            .filter(|name| request.contains(name))
            .collect();
        if names.is_empty() {
            return;
        }
        let mut vary = self
            .transaction
            .state
            .fields
            .value(b"Vary")
            .unwrap_or_default()
            .to_vec();
        for name in names {
            let mut there = vary.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            if there.any(|there| there.eq_ignore_ascii_case(name)) {
                continue;
            }
            if !vary.is_empty() {
                vary.extend_from_slice(b", ");
            }
            vary.extend_from_slice(name);
        }
        self.transaction.state.fields.set(b"Vary", &vary);
    }

    fn trace_pattern(&mut self, rule: &Rule, matches: bool) -> Result<(), Failure> {
        if matches {
            self.capture(rule)?;
        }
        let subject = self.subject().to_vec();
        trace::pattern(self.transaction, rule, &subject, matches, &self.by_rule);
        Ok(())
    }
}

/// What comes before a result that mod_proxy is to fetch.
pub(super) const PROXY: &[u8] = b"proxy:";
/// What comes before the result of a rule with `PT`.
pub(super) const PASS_THROUGH: &[u8] = b"passthrough:";
/// How long a query may become; then 500.
const LONGEST_QUERY: usize = 64 * 1024;

fn whole<'s>(state: &'s State, joined: &'s [u8]) -> &'s [u8] {
    if state.path_info.is_empty() {
        &state.filename
    } else {
        joined
    }
}

/// `name:value`, or `!name` to remove one.
fn set_variable(state: &mut State, text: &[u8]) {
    if let [b'!', name @ ..] = text {
        state.env.remove(name);
        return;
    }
    let (name, value) = match memchr::memchr(b':', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b""[..]),
    };
    // A variable that stays as it is costs nothing, also in a loop: what is replaced stays in memory until the request ends.
    if !name.is_empty() && state.env.value(name) != Some(value) {
        state.env.set(name, value);
    }
}
