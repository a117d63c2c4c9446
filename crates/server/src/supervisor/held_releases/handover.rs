//! The releases that are not served, for the program that takes over.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::super::change::WantedPlan;
use super::super::survey::written_root;
use super::super::takeover::Handover;
use super::{HeldRelease, HoldKind};

/// The first word of a line for another program.
pub(in crate::supervisor) const WORD: &str = "held";
/// The second word of the line of a release that waits.
const WAITING: &str = "waiting";
const REFUSED: &str = "refused";

/// Adds the lines of `held` for another program. The owner of a site has named the folders: one
/// with a line feed in its name is left out, and does not keep the other program from its start.
///
/// # Errors
/// The errors of [`Handover::line`].
pub(in crate::supervisor) fn hand_over(
    held: &[HeldRelease],
    handover: &mut Handover<'_>,
) -> io::Result<()> {
    let lines = held.iter().map(|one| (one.kind, one.encode()));
    for (kind, fields) in lines.filter(|(_, fields)| !fields.as_bytes().contains(&b'\n')) {
        let kind = match kind {
            HoldKind::Waiting => WAITING,
            HoldKind::Refused | HoldKind::HalfRefused => REFUSED,
        };
        handover.line(&[WORD, kind], &[], &fields)?;
    }
    Ok(())
}

impl HeldRelease {
    /// The fields with a zero byte between them, which no path contains.
    fn encode(&self) -> OsString {
        let HeldRelease { site, root, served, refused, why, .. } = self;
        let why = why.replace('\n', "; ");
        let paths = [root, served, refused].map(|path| path.as_os_str().as_bytes());
        let [root, served, refused] = paths;
        OsString::from_vec([site.as_bytes(), root, served, refused, why.as_bytes()].join(&0))
    }

    /// Reads what follows the first word of a line; `None` if it is malformed.
    pub(in crate::supervisor) fn decode(kind: &[u8], fields: &OsStr) -> Option<HeldRelease> {
        let mut fields = fields.as_bytes().splitn(5, |byte| *byte == 0).map(OsStr::from_bytes);
        let mut next = || fields.next();
        Some(HeldRelease {
            kind: match kind == WAITING.as_bytes() {
                true => HoldKind::Waiting,
                false => HoldKind::Refused,
            },
            site: next()?.to_string_lossy().into_owned(),
            root: next()?.into(),
            served: next()?.into(),
            refused: next()?.into(),
            why: next()?.to_string_lossy().into_owned(),
        })
    }
}

impl WantedPlan {
    /// Holds the releases that the former program has held, where the sites have the same roots.
    pub(in crate::supervisor) fn hold_inherited(&mut self, mut held: Vec<HeldRelease>) {
        held.retain(|one| {
            let mut sites = self.config.sites.iter().filter(|site| site.php.is_some());
            sites.any(|site| site.name == one.site && written_root(site) == one.root)
        });
        self.hold(held);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::takeover::tests::inherit;
    use super::*;

    #[test]
    fn held_releases_are_found_again() {
        let held = |folder: &str, kind| HeldRelease {
            site: "my shop".to_owned(),
            root: "/srv/d/current/public".into(),
            served: folder.into(),
            refused: "/srv/d/releases/4".into(),
            why: "no start".to_owned(),
            kind,
        };
        let told = [
            held("/srv/d/releases/1", HoldKind::Refused),
            held("/srv/d/releases\nnext 9", HoldKind::Refused),
            held("/srv/d/with spaces", HoldKind::Waiting),
        ];
        let mut handover = Handover::default();
        hand_over(&told, &mut handover).unwrap();
        let found = inherit(handover).unwrap();
        assert_eq!(found.held, [told[0].clone(), told[2].clone()]);
        assert_eq!(found.next_number, 0);
        assert_eq!(HeldRelease::decode(b"refused", OsStr::new("too\0few")), None);
    }
}
