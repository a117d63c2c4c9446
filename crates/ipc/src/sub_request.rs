//! The answer to a script that asks for another URI of its site.

/// The question for the pool's state, whose answer is JSON, instead of one for a URI.
pub const FPM_STATUS: &[u8] = b"fpm_get_status";

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
        assert_eq!(SubRequestResult::decode(&script(&[("A", "1\0")]).encode()), Some(script(&[])));
        for wrong in ["", "X", "E", "Ex", "S/a\0A", "Ox"] {
            assert_eq!(SubRequestResult::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
