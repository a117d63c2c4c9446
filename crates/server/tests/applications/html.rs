//! The part of HTML that a browser needs to follow links, load assets and send forms.

/// A start tag, and what follows it.
pub(crate) struct Tag<'p> {
    /// In lower case.
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
    rest: &'p str,
}

impl Tag<'_> {
    /// The attribute's value, with its character references resolved.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    /// The text up to the end tag.
    pub(crate) fn text(&self) -> String {
        let end = format!("</{}", self.name);
        resolve_references(self.rest.split(&end).next().unwrap_or_default())
    }
}

/// The start tags of `page` in their order. Comments and the contents of scripts are skipped.
pub(crate) fn tags(page: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
        } else if rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let tag = tag(rest);
            rest = tag.rest;
            if tag.name == "script" {
                rest = rest.find("</script").map_or("", |end| &rest[end..]);
            }
            tags.push(tag);
        }
    }
    tags
}

/// A form of a page, with the initial values of its fields.
pub(crate) struct Form {
    /// The value in the page. Empty: the page's own URL.
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
}

/// The forms of `page`.
pub(crate) fn forms(page: &str) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut select: Option<(String, Option<String>)> = None;
    for tag in tags(page) {
        let value = |tag: &Tag| tag.attribute("value").unwrap_or_default().to_owned();
        if tag.name == "form" {
            forms.push(Form {
                action: tag.attribute("action").unwrap_or_default().to_owned(),
                fields: Vec::new(),
            });
        }
        let Some(form) = forms.last_mut() else {
            continue;
        };
        if tag.name == "option" {
            if let Some((_, chosen)) = &mut select
                && (chosen.is_none() || tag.has("selected"))
            {
                *chosen = Some(value(&tag));
            }
            continue;
        }
        if let Some((name, chosen)) = select.take() {
            form.fields.push((name, chosen.unwrap_or_default()));
        }
        let Some(name) = tag.attribute("name").map(str::to_owned) else {
            continue;
        };
        match tag.name.as_str() {
            "input" => match tag.attribute("type").unwrap_or("text") {
                "submit" | "button" | "image" | "reset" | "file" => {}
                "checkbox" | "radio" if !tag.has("checked") => {}
                "checkbox" | "radio" if !tag.has("value") => {
                    form.fields.push((name, "on".to_owned()))
                }
                _ => form.fields.push((name, value(&tag))),
            },
            // A browser drops the line break that the source may have after the tag.
            "textarea" => form.fields.push((name, tag.text().trim_start_matches('\n').to_owned())),
            "select" => select = Some((name, None)),
            _ => {}
        }
    }
    forms
}

/// The tag that `text` begins with, after its `<`.
fn tag(text: &str) -> Tag<'_> {
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/');
    let (name, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            break;
        }
        if let Some(after) = rest.strip_prefix('>') {
            rest = after;
            break;
        }
        let end = rest
            .find(|c: char| c.is_ascii_whitespace() || "=>/".contains(c))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end.max(1));
        let (value, after) = match after.trim_start().strip_prefix('=') {
            Some(after) => attribute_value(after.trim_start()),
            None => ("", after),
        };
        attributes.push((name.to_ascii_lowercase(), resolve_references(value)));
        rest = after;
    }
    Tag {
        name: name.to_ascii_lowercase(),
        attributes,
        rest,
    }
}

fn attribute_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote).unwrap_or((quoted, ""));
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(text.len());
    text.split_at(end)
}

fn resolve_references(text: &str) -> String {
    let mut text = text.to_owned();
    // The ampersand last, or `&amp;lt;` would be taken for two references.
    for (reference, character) in [
        ("&quot;", "\""),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#039;", "'"),
        ("&#038;", "&"),
        ("&amp;", "&"),
    ] {
        text = text.replace(reference, character);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_browsers_read_them() {
        let page = r#"<!-- <img src=no> --><IMG alt src='a b.png' WIDTH=3 data-x="1>2"/><script>"<img src=no>"</script><a href=/?a=1&amp;b=2>x</a>"#;
        let tags = tags(page);
        let names: Vec<_> = tags.iter().map(|tag| tag.name.as_str()).collect();
        assert_eq!(names, ["img", "script", "a"]);
        assert_eq!(tags[0].attribute("src"), Some("a b.png"));
        assert_eq!(tags[0].attribute("width"), Some("3"));
        assert_eq!(tags[0].attribute("data-x"), Some("1>2"));
        assert_eq!(tags[0].attribute("alt"), Some(""));
        assert_eq!(tags[2].attribute("href"), Some("/?a=1&b=2"));
    }

    #[test]
    fn untouched_forms_hold_what_browsers_send() {
        let page = r#"<form action="save?x=1&#038;y=2"><input name=hidden type=hidden value="1">
            <input type="checkbox" name="off" value="a"><input type="checkbox" name="on" checked>
            <input type="submit" name="button" value="Save"><textarea name="text">
a &amp; b</textarea>
            <select name="one"><option value="1"><option value="2" selected></select>
            <select name="first"><option value="x"></select>
            <input name="last"></form>"#;
        let forms = forms(page);
        assert_eq!(forms.len(), 1);
        assert_eq!(forms[0].action, "save?x=1&y=2");
        let fields: Vec<_> = forms[0]
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("hidden", "1"),
            ("on", "on"),
            ("text", "a & b"),
            ("one", "2"),
            ("first", "x"),
            ("last", ""),
        ];
        assert_eq!(fields, expected);
    }
}
