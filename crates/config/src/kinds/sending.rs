//! Settings of content that is sent: the folders that scripts may name.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::paths::{check_path, is_plain_path};
use super::tables::{read_pairs, show_pairs};
use super::words::word_kind;
use super::{ValueError, ValueKind};
use crate::diagnostic::MistakeCollector;
use crate::values::ContentCoding;

/// Folders by the paths of URLs that stand for them.
pub(crate) struct Accel;

impl ValueKind for Accel {
    type Value = Vec<(String, PathBuf)>;

    fn name() -> String {
        "a table of paths, each with a slash at both ends, and folders".to_owned()
    }

    fn show(value: &Self::Value) -> String {
        let pairs: Vec<_> = value
            .iter()
            .map(|(prefix, folder)| (prefix.clone(), folder.to_string_lossy().into_owned()))
            .collect();
        show_pairs(&pairs)
    }

    fn read(
        value: &Spanned<DeValue<'_>>,
        report: &mut MistakeCollector<'_>,
    ) -> Option<Self::Value> {
        let pairs = read_pairs(value, report, &Self::name(), check_prefix)?;
        let mut read = Vec::with_capacity(pairs.len());
        for (prefix, folder) in pairs {
            if let Err(problem) = check_path(&folder) {
                report.add(value.span(), problem.message, Some(problem.help));
                return None;
            }
            read.push((prefix, PathBuf::from(folder)));
        }
        Some(read)
    }
}

word_kind!(
    /// A content coding.
    Coding, ContentCoding, "is not a coding",
    ContentCoding::ALL.map(|coding| (coding.token(), coding))
);

fn check_prefix(prefix: &str) -> Result<(), ValueError> {
    let inner = prefix.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
    if prefix == "/" || inner.is_some_and(is_plain_path) {
        return Ok(());
    }
    Err(ValueError::new(
        format!("`{prefix}` is not the path of a folder"),
        "write it decoded, with a slash at both ends and without `..`, as in `\"/protected/\"`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_a_slash_at_both_ends() {
        for right in ["/", "/protected/", "/a/b c/"] {
            assert!(check_prefix(right).is_ok(), "{right}");
        }
        for wrong in ["", "protected/", "/protected", "//", "/a//b/", "/../", "/a/./"] {
            assert!(check_prefix(wrong).is_err(), "{wrong}");
        }
    }
}
