//! The media types of the system's `mime.types` file (Apache's TypesConfig).

use std::collections::HashMap;
use std::sync::OnceLock;

/// The types of a file in the format of `mime.types`: on each line a type, then its extensions.
#[derive(Debug, Default)]
pub(crate) struct SystemTypes {
    /// Keys are in lower case.
    by_extension: HashMap<Box<str>, &'static str>,
}

/// The table of this process. A front reads its file once, at its start; a reload starts another
/// front.
static TYPES: OnceLock<SystemTypes> = OnceLock::new();

/// Gives the types of `text`, the content of a `mime.types` file, precedence over the built-in
/// ones, in the whole process. Only the first call has an effect: what is typed once stays so.
pub fn use_system_types(text: &[u8]) {
    TYPES.get_or_init(|| SystemTypes::parse(text));
}

/// Returns the type that the system's file has for an extension, which has no dot. `None` if it has
/// none, or was not read.
pub(crate) fn of_extension(extension: &str) -> Option<&'static str> {
    TYPES.get()?.find(extension)
}

impl SystemTypes {
    /// Reads a file as Apache does: the last line about an extension counts, `#` begins a comment
    /// line. Types that no field can carry are left out.
    pub(crate) fn parse(text: &[u8]) -> SystemTypes {
        let mut types = SystemTypes::default();
        let text = String::from_utf8_lossy(text);
        for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            let Some(media_type) = words.next() else {
                continue;
            };
            let extensions: Vec<String> = words.map(str::to_ascii_lowercase).collect();
            if extensions.is_empty() || !media_type.bytes().all(|byte| byte.is_ascii_graphic()) {
                continue;
            }
            // The table lives as long as the process.
            let media_type: &'static str = String::leak(media_type.to_owned());
            for extension in extensions {
                types.by_extension.insert(extension.into(), media_type);
            }
        }
        types
    }

    /// Returns the type for an extension in any case. `None` if the file has none.
    pub(crate) fn find(&self, extension: &str) -> Option<&'static str> {
        match self.by_extension.get(extension) {
            Some(found) => Some(found),
            None if extension.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                self.by_extension.get(&*extension.to_ascii_lowercase()).copied()
            }
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_types_and_extensions() {
        let text = b"# text/x-comment none\n # text/x none\n\n\
            text/plain\ttxt  LOG\n  text/css css\ntext/html\n\
            text/x-last txt\ntext/\xff bad\n text/plain#x y\n";
        let types = SystemTypes::parse(text);
        for (extension, expected) in [
            ("txt", Some("text/x-last")),
            ("TXT", Some("text/x-last")),
            ("log", Some("text/plain")),
            ("css", Some("text/css")),
            ("none", None),
            ("html", None),
            ("bad", None),
            ("", None),
        ] {
            assert_eq!(types.find(extension), expected, "{extension}");
        }
    }
}
