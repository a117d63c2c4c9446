//! The mutants of a crate: every place of its sources that can be changed, and the changes.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Arm, Attribute, BinOp, Block, Expr, Meta, Pat, Signature, Token, UnOp};

use crate::{operators, values};

/// Files of text for people, which have no behaviour.
const TEXTS: [&str; 1] = ["crates/htaccess/src/manual.rs"];

/// A file of a crate with the places that can be changed.
pub struct Source {
    /// Relative to the workspace.
    pub path: PathBuf,
    pub text: String,
    /// In the order of their beginnings; a place within another comes after it.
    pub sites: Vec<Site>,
}

/// A place that can be changed.
pub struct Site {
    pub kind: Kind,
    /// Bytes of the text.
    pub place: Range<usize>,
    pub mutants: Vec<Mutant>,
}

/// The way in which a place is rewritten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Another expression is used in place of the one there.
    Expression,
    /// The function returns another value at once. The place is empty, after the body's `{`.
    Body,
    /// The arm of a `match` is not taken. The place is empty, after the pattern.
    Arm,
    /// The condition, which has a `let`, does not hold. The place is empty, before the condition.
    Let,
}

/// A changed place.
#[derive(Debug, Clone)]
pub struct Mutant {
    pub number: u32,
    /// File, function and change, for people.
    pub name: String,
    /// The code in place of the present one, where the kind of the place needs it.
    pub code: String,
}

impl Source {
    /// The mutants of all places.
    pub fn mutants(&self) -> impl Iterator<Item = Mutant> {
        self.sites.iter().flat_map(|site| site.mutants.clone())
    }
}

/// Reads the library of a crate, file by file, and finds its mutants. They are numbered from 1.
pub fn sources(root: &Path, name: &str) -> Result<Vec<Source>, String> {
    let first = Path::new("crates").join(name).join("src/lib.rs");
    let mut sources = Vec::new();
    let mut waiting = vec![first];
    let mut number = 0;
    while let Some(path) = waiting.pop() {
        let text = fs::read_to_string(root.join(&path))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let (sites, modules) = find(&path, &text, &mut number)?;
        let stem = path.file_stem().unwrap_or_default();
        let folder = match stem.to_str() {
            Some("lib" | "mod") => path.with_file_name(""),
            _ => path.with_file_name(stem),
        };
        for module in modules.iter().rev() {
            let file = folder.join(format!("{module}.rs"));
            let is_file = root.join(&file).exists();
            waiting.push(if is_file {
                file
            } else {
                folder.join(module).join("mod.rs")
            });
        }
        let sites = if TEXTS.iter().any(|text| path == Path::new(text)) {
            vec![]
        } else {
            sites
        };
        sources.push(Source { path, text, sites });
    }
    Ok(sources)
}

/// Finds the places of one file, and the modules that have files of their own.
pub fn find(path: &Path, text: &str, number: &mut u32) -> Result<(Vec<Site>, Vec<String>), String> {
    let file = syn::parse_file(text).map_err(|error| format!("{}: {error}", path.display()))?;
    let within: PathBuf = path.iter().skip_while(|part| *part != "src").collect();
    let file_name = within.display().to_string();
    let mut finder = Finder {
        text,
        file_name,
        number,
        names: vec![],
        sites: vec![],
        modules: vec![],
    };
    finder.visit_file(&file);
    let (mut sites, modules) = (finder.sites, finder.modules);
    // An empty place is before what begins there. The sort is stable: of two equal places, the
    // outer one was found first.
    sites.sort_by_key(|site| {
        let place = &site.place;
        (place.start, !place.is_empty(), usize::MAX - place.end)
    });
    Ok((sites, modules))
}

struct Finder<'a> {
    text: &'a str,
    file_name: String,
    number: &'a mut u32,
    /// The types and functions around the place.
    names: Vec<String>,
    sites: Vec<Site>,
    modules: Vec<String>,
}

impl Finder<'_> {
    fn source(&self, item: &impl Spanned) -> &str {
        &self.text[item.span().byte_range()]
    }

    /// The source on one line, not longer than a line of a list can show.
    fn shown(&self, item: &impl Spanned) -> String {
        let words: Vec<_> = self.source(item).split_whitespace().collect();
        let shown = words.join(" ");
        match shown.char_indices().nth(70) {
            Some((end, _)) => format!("{} …", &shown[..end]),
            None => shown,
        }
    }

    fn add(&mut self, kind: Kind, place: Range<usize>, changes: Vec<(String, String)>) {
        let place_name = format!("{}, {}", self.file_name, self.names.join("::"));
        let mut mutants = Vec::new();
        for (code, change) in changes {
            *self.number += 1;
            let name = format!("{place_name}: {change}");
            mutants.push(Mutant { number: *self.number, name, code });
        }
        if !mutants.is_empty() {
            self.sites.push(Site { kind, place, mutants });
        }
    }

    /// Adds constants in place of a condition or an operand.
    fn add_constants(&mut self, expression: &Expr, constants: &[&str], role: &str) {
        let shown = self.shown(expression);
        let change =
            |constant: &&str| (constant.to_string(), format!("{constant} for the {role} {shown}"));
        let changes = constants.iter().map(change).collect();
        self.add(Kind::Expression, expression.span().byte_range(), changes);
    }

    fn add_condition(&mut self, condition: &Expr, constants: &[&str]) {
        if has_let(condition) {
            let start = condition.span().byte_range().start;
            let change = format!("false for the condition {}", self.shown(condition));
            self.add(Kind::Let, start..start, vec![(String::new(), change)]);
        } else {
            self.add_constants(condition, constants, "condition");
        }
    }

    /// Visits a function: its body's values, then what is within its body.
    fn function(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        if !is_built(attributes) || signature.constness.is_some() || signature.ident == "size_hint"
        {
            return;
        }
        self.names.push(signature.ident.to_string());
        if !body.stmts.is_empty() {
            let inside = body.span().byte_range();
            let now = self.text[inside.start + 1..inside.end - 1].trim();
            let changes = values::of_return(&signature.output)
                .into_iter()
                .filter(|value| value != now)
                .map(|value| (value.clone(), format!("the body returns {value}")))
                .collect();
            self.add(Kind::Body, inside.start + 1..inside.start + 1, changes);
        }
        visit::visit_block(self, body);
        self.names.pop();
    }

    fn operands(&mut self, expression: &Expr, is_and: bool) {
        match expression {
            Expr::Binary(inner) if matches!(inner.op, BinOp::And(_)) && is_and => {}
            Expr::Binary(inner) if matches!(inner.op, BinOp::Or(_)) && !is_and => {}
            operand if has_let(operand) => {}
            operand if is_and => self.add_constants(operand, &["true"], "operand"),
            operand => self.add_constants(operand, &["false"], "operand"),
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let is_for_people = item.trait_.as_ref().is_some_and(|(_, path, _)| {
            path.segments
                .last()
                .is_some_and(|last| last.ident == "Display" || last.ident == "Debug")
        });
        if is_built(&item.attrs) && !is_for_people {
            self.names.push(self.shown(&item.self_ty));
            visit::visit_item_impl(self, item);
            self.names.pop();
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names.push(item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.names.pop();
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_built(&item.attrs) {
            match &item.content {
                Some(_) => visit::visit_item_mod(self, item),
                None => self.modules.push(item.ident.to_string()),
            }
        }
    }

    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let place = expression.span().byte_range();
        let operator = expression.op.span().byte_range();
        let is_and = matches!(expression.op, BinOp::And(_));
        let is_logical = is_and || matches!(expression.op, BinOp::Or(_));
        if !(is_logical && (has_let(&expression.left) || has_let(&expression.right))) {
            let (before, now) =
                (&self.text[place.start..operator.start], &self.text[operator.clone()]);
            let after = &self.text[operator.end..place.end];
            let shown = self.shown(expression);
            let change = |new: &&str| {
                (format!("{before}{new}{after}"), format!("{new} for {now} in {shown}"))
            };
            let changes = operators::in_place_of(now).iter().map(change).collect();
            self.add(Kind::Expression, place, changes);
        }
        if is_logical {
            self.operands(&expression.left, is_and);
            self.operands(&expression.right, is_and);
        }
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        if let UnOp::Not(_) | UnOp::Neg(_) = &expression.op {
            let change = format!("without the sign of {}", self.shown(expression));
            let code = self.source(&expression.expr).to_owned();
            self.add(Kind::Expression, expression.span().byte_range(), vec![(code, change)]);
        }
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.add_condition(&expression.cond, &["true", "false"]);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        self.add_condition(&expression.cond, &["false"]);
        visit::visit_expr_while(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        let is_rest = |arm: &Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let has_rest = expression.arms.iter().any(is_rest);
        for arm in &expression.arms {
            match &arm.guard {
                Some((_, guard)) if has_let(guard) => self.add_condition(guard, &[]),
                Some((_, guard)) => self.add_constants(guard, &["true", "false"], "guard"),
                None if has_rest && !is_rest(arm) => {
                    let end = arm.pat.span().byte_range().end;
                    let change = format!("without the arm {}", self.shown(&arm.pat));
                    self.add(Kind::Arm, end..end, vec![(String::new(), change)]);
                }
                None => {}
            }
        }
        visit::visit_expr_match(self, expression);
    }

    // Constants, patterns and types cannot ask for the chosen mutant.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, expression: &'ast syn::ExprRepeat) {
        self.visit_expr(&expression.expr);
    }
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
}

/// Whether a condition is a `let`, or a chain with one.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(chain) if matches!(chain.op, BinOp::And(_)) => {
            has_let(&chain.left) || has_let(&chain.right)
        }
        _ => false,
    }
}

/// Whether an item is part of the library as it is installed: not of its tests alone.
fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| match &attribute.meta {
        Meta::Path(path) => !path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| holds(&condition))
        }
        _ => true,
    })
}

/// Whether a condition of `cfg` holds where the server is built.
fn holds(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        let is = |name| condition.path().is_ident(name);
        return !["test", "loom", "fuzzing", "miri"].into_iter().any(is);
    };
    let parser = syn::punctuated::Punctuated::<Meta, Token![,]>::parse_terminated;
    let inner: Vec<bool> = match list.parse_args_with(parser) {
        Ok(inner) => inner.iter().map(holds).collect(),
        Err(_) => return true,
    };
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("not") => !inner.contains(&true),
        Some("any") => inner.contains(&true),
        _ => !inner.contains(&false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes of a text, without file and number.
    fn changes(text: &str) -> Vec<String> {
        let (sites, _) = find(Path::new("src/a.rs"), text, &mut 0).unwrap();
        let names = sites.iter().flat_map(|site| &site.mutants);
        names
            .map(|mutant| mutant.name.strip_prefix("src/a.rs, ").unwrap().to_owned())
            .collect()
    }

    #[test]
    fn changes_have_their_function_and_their_place() {
        assert_eq!(
            changes("impl A { fn less(&self, b: A) -> bool { self.0 < b.0 } }"),
            [
                "A::less: the body returns true",
                "A::less: the body returns false",
                "A::less: == for < in self.0 < b.0",
                "A::less: > for < in self.0 < b.0",
                "A::less: <= for < in self.0 < b.0",
            ]
        );
        assert_eq!(
            changes("fn f(a: bool) { if a && !b() {} while let Some(_) = c() {} }")[1..],
            [
                "f: true for the condition a && !b()",
                "f: false for the condition a && !b()",
                "f: || for && in a && !b()",
                "f: true for the operand a",
                "f: true for the operand !b()",
                "f: without the sign of !b()",
                "f: false for the condition let Some(_) = c()",
            ]
        );
        assert_eq!(
            changes("fn f(a: u8) { match a { 0 => b(), 1 if c() => d(), _ => e() } }")[1..],
            ["f: without the arm 0", "f: true for the guard c()", "f: false for the guard c()"]
        );
    }

    #[test]
    fn tests_constants_and_texts_for_people_are_not_changed() {
        for text in [
            "#[cfg(test)] mod tests { fn f() { a(); } }",
            "#[cfg(all(test, not(loom)))] mod tests { fn f() { a(); } }",
            "#[cfg(any(test, fuzzing))] fn f() { a(); }",
            "const fn f() -> u8 { 1 + 2 }",
            "const A: u8 = 1 + 2; static B: [u8; 1 + 2] = [0; 1 + 2];",
            "impl fmt::Display for A { fn fmt(&self) { a(); } }",
        ] {
            assert_eq!(changes(text), [""; 0], "{text}");
        }
        assert_eq!(changes("#[cfg(not(loom))] fn f() { a(); }"), ["f: the body returns ()"]);
    }

    #[test]
    fn modules_in_files_are_followed() {
        let text = "mod a; #[cfg(test)] mod tests; pub mod b;";
        let (_, modules) = find(Path::new("src/lib.rs"), text, &mut 0).unwrap();
        assert_eq!(modules, ["a", "b"]);
    }
}
