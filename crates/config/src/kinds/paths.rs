//! Files, document roots, symbolic links and what to try for a path.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::words::word_kind;
use super::{List, ValueError, ValueKind, quoted, read_string};
use crate::diagnostic::MistakeCollector;
use crate::values::{EncodedSlashes, RootTemplate, Symlinks, TryStep};

/// The path of a file or folder.
pub(crate) struct FilePath;

impl ValueKind for FilePath {
    type Value = PathBuf;

    fn name() -> String {
        "a path".to_owned()
    }

    fn show(value: &PathBuf) -> String {
        quoted(&value.to_string_lossy())
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<PathBuf> {
        read_string(value, report, "a path", |text| {
            check_path(text)?;
            Ok(PathBuf::from(text))
        })
    }
}

/// Checks that a text can be a path.
///
/// # Errors
/// The path is empty, holds a NUL or begins with `~`.
pub(super) fn check_path(text: &str) -> Result<(), ValueError> {
    if text.is_empty() || text.contains('\0') {
        return Err(ValueError::new(
            "the path is empty or holds a NUL",
            "give a path, or leave the key out",
        ));
    }
    if text.starts_with('~') {
        return Err(ValueError::new(
            "`~` is not replaced by a home folder",
            "write the whole path",
        ));
    }
    Ok(())
}

/// A document root, perhaps with `{host}`.
pub(crate) struct RootPath;

impl ValueKind for RootPath {
    type Value = RootTemplate;

    fn name() -> String {
        "a path, perhaps with `{host}`".to_owned()
    }

    fn show(value: &RootTemplate) -> String {
        match value {
            RootTemplate::Fixed(path) if path.as_os_str().is_empty() => "must be given".to_owned(),
            root => quoted(&root.to_string()),
        }
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<RootTemplate> {
        read_string(value, report, "a path", root)
    }
}

const PLACEHOLDER: &str = "{host}";

fn root(text: &str) -> Result<RootTemplate, ValueError> {
    check_path(text)?;
    let Some(at) = text.find(PLACEHOLDER) else {
        if text.contains(['{', '}']) {
            return Err(ValueError::new(
                format!("`{text}` holds a brace"),
                "the only placeholder is `{host}`",
            ));
        }
        return Ok(RootTemplate::Fixed(PathBuf::from(text)));
    };
    let (before, after) = (&text[..at], &text[at + PLACEHOLDER.len()..]);
    if after.contains(PLACEHOLDER) {
        return Err(ValueError::new("`{host}` is twice in the path", "use it once"));
    }
    if [before, after].iter().any(|part| part.contains(['{', '}'])) {
        return Err(ValueError::new(
            format!("`{text}` holds another brace"),
            "the only placeholder is `{host}`",
        ));
    }
    let whole_component = (before.is_empty() || before.ends_with('/'))
        && (after.is_empty() || after.starts_with('/'));
    if !whole_component {
        return Err(ValueError::new(
            "`{host}` is not a whole component of the path",
            "put it between slashes, as in `\"/srv/www/{host}/public\"`",
        ));
    }
    Ok(RootTemplate::PerHost {
        before: before.to_owned(),
        after: after.to_owned(),
    })
}

word_kind!(
    /// `"owner"`, `"inside"` or `"follow"`.
    SymlinkPolicy, Symlinks, "is not a policy for links",
    [("owner", Symlinks::Owner), ("inside", Symlinks::Inside), ("follow", Symlinks::Follow)]
);

word_kind!(
    /// `"refuse"`, `"keep"` or `"decode"`.
    EncodedSlashRule, EncodedSlashes, "says nothing about encoded slashes",
    [
        ("refuse", EncodedSlashes::Refuse),
        ("keep", EncodedSlashes::Keep),
        ("decode", EncodedSlashes::Decode),
    ]
);

/// The steps that are tried for a path, in order.
pub(crate) struct Try;

impl ValueKind for Try {
    type Value = Vec<TryStep>;

    fn name() -> String {
        "a list of `$uri`, `$uri/`, `$uri.html`, paths, and last `=404`".to_owned()
    }

    fn show(value: &Vec<TryStep>) -> String {
        List::<OneTryStep>::show(value)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Vec<TryStep>> {
        let steps = List::<OneTryStep>::read(value, report)?;
        let Some((_, before_last)) = steps.split_last() else {
            report.add(
                value.span(),
                "there is nothing to try",
                Some("give at least `[\"$uri\"]`".to_owned()),
            );
            return None;
        };
        if let Some(status) = before_last.iter().find(|step| matches!(step, TryStep::Status(_))) {
            report.add(
                value.span(),
                format!("`{status}` is not the last step"),
                Some("put it last".to_owned()),
            );
            return None;
        }
        Some(steps)
    }
}

struct OneTryStep;

impl ValueKind for OneTryStep {
    type Value = TryStep;

    fn name() -> String {
        "something to try".to_owned()
    }

    fn show(value: &TryStep) -> String {
        quoted(&value.to_string())
    }

    fn read(value: &Spanned<DeValue<'_>>, report: &mut MistakeCollector<'_>) -> Option<TryStep> {
        read_string(value, report, "something to try, such as `\"$uri\"` or `\"/index.php\"`", step)
    }
}

fn step(text: &str) -> Result<TryStep, ValueError> {
    const FORMS: &str = "give `$uri`, `$uri/`, `$uri.html`, a path such as `/index.php`, or `=404`";
    let problem =
        |message: &str, help: &str| Err(ValueError::new(format!("`{text}` {message}"), help));
    if let Some(status) = text.strip_prefix('=') {
        return match status.parse() {
            Ok(status @ 400..=599) => Ok(TryStep::Status(status)),
            _ => problem("is not an error status", "give `=404` or another status from 400 to 599"),
        };
    }
    if text.contains('?') || text.contains("$args") || text.contains("$is_args") {
        return problem("names the query string", "leave it out: the query string is always kept");
    }
    if let Some(suffix) = text.strip_prefix("$uri") {
        return match suffix {
            "" => Ok(TryStep::Uri),
            "/" => Ok(TryStep::UriDirectory),
            suffix
                if suffix.starts_with('.')
                    && is_plain_path(suffix.trim_start_matches('.'))
                    && !suffix.contains('/') =>
            {
                Ok(TryStep::UriSuffix(suffix.to_owned()))
            }
            _ => problem("has an ending that cannot be tried", FORMS),
        };
    }
    if text.contains('$') {
        return problem("holds an unknown variable", FORMS);
    }
    match text.strip_prefix('/') {
        Some(relative) if is_plain_path(relative) => Ok(TryStep::Path(text.to_owned())),
        Some(_) => problem(
            "is not the path of a file below the root",
            "write it without `..`, `.` and `//`",
        ),
        None => problem("does not start with `/`", FORMS),
    }
}

pub(super) fn is_plain_path(relative: &str) -> bool {
    relative.split('/').all(|component| !matches!(component, "" | "." | ".."))
        && !relative.bytes().any(|byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots() {
        let fixed = |path: &str| Some(RootTemplate::Fixed(PathBuf::from(path)));
        let per_host = |before: &str, after: &str| {
            Some(RootTemplate::PerHost {
                before: before.into(),
                after: after.into(),
            })
        };
        let rows = [
            ("/srv/www", fixed("/srv/www")),
            ("public", fixed("public")),
            ("/srv/{host}/public", per_host("/srv/", "/public")),
            ("/srv/{host}", per_host("/srv/", "")),
            ("{host}", per_host("", "")),
            ("", None),
            ("~/www", None),
            ("/srv/www.{host}", None),
            ("/srv/{host}.d", None),
            ("/srv/{host}/{host}", None),
            ("/srv/{name}", None),
            ("/srv/{host}/}", None),
        ];
        for (text, expected) in rows {
            assert_eq!(root(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn steps() {
        let rows = [
            ("$uri", Some(TryStep::Uri)),
            ("$uri/", Some(TryStep::UriDirectory)),
            ("$uri.html", Some(TryStep::UriSuffix(".html".into()))),
            ("/index.php", Some(TryStep::Path("/index.php".into()))),
            ("/app/front.php", Some(TryStep::Path("/app/front.php".into()))),
            ("=404", Some(TryStep::Status(404))),
            ("=200", None),
            ("=x", None),
            ("/index.php?$args", None),
            ("/index.php$is_args$args", None),
            ("$uri/index.php", None),
            ("$uri..", None),
            ("$host", None),
            ("index.php", None),
            ("/", None),
            ("/../a", None),
            ("/a//b", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(step(text).ok(), expected, "{text}");
        }
    }
}
