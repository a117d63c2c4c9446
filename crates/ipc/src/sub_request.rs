//! A script's question for another URI of its site, and the answer.

/// The question: a request for another URI by the same client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubRequestQuestion<'a> {
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// The host that the client has named; empty if it has named none.
    pub host: &'a [u8],
    /// Path and query, as in a request's target.
    pub target: &'a [u8],
    /// Names and values of the request's fields, without Host.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> SubRequestQuestion<'a> {
    /// Encodes the question. `None`: one of its texts contains a NUL.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let fields = self.fields.iter().flat_map(|(name, value)| [*name, *value]);
        let texts = [self.scheme, self.host, self.target].into_iter().chain(fields);
        let mut out = Vec::new();
        for text in texts {
            if text.contains(&0) {
                return None;
            }
            out.extend_from_slice(text);
            out.push(0);
        }
        Some(out)
    }

    /// Decodes a question. `None` for one that [`SubRequestQuestion::encode`] has not made. The
    /// meaning of the texts is not checked.
    pub fn decode(question: &'a [u8]) -> Option<SubRequestQuestion<'a>> {
        let mut texts = question.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let (scheme, host, target) = (texts.next()?, texts.next()?, texts.next()?);
        let mut fields = Vec::new();
        while let Some(name) = texts.next() {
            fields.push((name, texts.next()?));
        }
        Some(SubRequestQuestion { scheme, host, target, fields })
    }
}

/// The result of resolving a URI for a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubRequestResult<'a> {
    /// A file to send; its path.
    File(&'a [u8]),
    /// A script to include.
    Script {
        /// Its path.
        path: &'a [u8],
        /// Names and values of the variables that it would have as a request of its own.
        variables: Vec<(&'a [u8], &'a [u8])>,
    },
    /// A response with this status, which is not to be included.
    Status(u16),
    /// Something else that has a response: an upstream's, or a list of a folder's files.
    Other,
}

impl<'a> SubRequestResult<'a> {
    /// Encodes the answer. Variables that contain a NUL are left out.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            SubRequestResult::File(path) => [b"F", *path].concat(),
            SubRequestResult::Script { path, variables } => {
                let mut out = [b"S", *path].concat();
                let clean = |text: &[u8]| !text.contains(&0);
                for (name, value) in variables.iter().filter(|(n, v)| clean(n) && clean(v)) {
                    for part in [b"\0", *name, b"\0", *value] {
                        out.extend_from_slice(part);
                    }
                }
                out
            }
            SubRequestResult::Status(status) => format!("E{status}").into_bytes(),
            SubRequestResult::Other => b"O".to_vec(),
        }
    }

    /// Decodes an answer. `None` for one that [`SubRequestResult::encode`] has not made.
    pub fn decode(answer: &'a [u8]) -> Option<SubRequestResult<'a>> {
        let (kind, rest) = answer.split_first()?;
        Some(match kind {
            b'F' => SubRequestResult::File(rest),
            b'S' => {
                let mut parts = rest.split(|byte| *byte == 0);
                let path = parts.next()?;
                let mut variables = Vec::new();
                while let Some(name) = parts.next() {
                    variables.push((name, parts.next()?));
                }
                SubRequestResult::Script { path, variables }
            }
            b'E' => SubRequestResult::Status(str::from_utf8(rest).ok()?.parse().ok()?),
            b'O' if rest.is_empty() => SubRequestResult::Other,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_survives_the_trip() {
        let question = |host, fields: &[(&'static str, &'static str)]| SubRequestQuestion {
            scheme: b"https",
            host,
            target: b"/a?b=c",
            fields: fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect(),
        };
        for asked in [
            question(b"example.org:8080", &[]),
            question(b"", &[("Accept", "*/*"), ("X-Empty", ""), ("Accept", "x")]),
        ] {
            let encoded = asked.encode().unwrap();
            assert_eq!(SubRequestQuestion::decode(&encoded), Some(asked.clone()), "{asked:?}");
        }
        assert_eq!(question(b"h", &[("A", "1\0")]).encode(), None);
        for wrong in ["", "\0", "a\0b\0", "a\0b\0c", "a\0b\0c\0d\0"] {
            assert_eq!(SubRequestQuestion::decode(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_answer_survives_the_trip() {
        let script = |variables: &[(&'static str, &'static str)]| SubRequestResult::Script {
            path: b"/r/a.php",
            variables: variables.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect(),
        };
        let cases = [
            SubRequestResult::File(b"/r/a.txt"),
            script(&[]),
            script(&[("A", "1"), ("B", ""), ("C", "x=y")]),
            SubRequestResult::Status(404),
            SubRequestResult::Other,
        ];
        for found in cases {
            assert_eq!(SubRequestResult::decode(&found.encode()), Some(found.clone()), "{found:?}");
        }
        let unclean = script(&[("A", "1\0"), ("B\0", "2"), ("C", "3")]);
        assert_eq!(SubRequestResult::decode(&unclean.encode()), Some(script(&[("C", "3")])));
        for wrong in ["", "X", "E", "Ex", "S/a\0A", "Ox"] {
            assert_eq!(SubRequestResult::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
