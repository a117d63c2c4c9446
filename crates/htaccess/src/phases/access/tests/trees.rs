//! Random trees of containers, against a plain reading of Apache's manual.

use std::fmt::Write;

use super::{Asked, Site, USERS_OF, code, merged};
use crate::phases::access::check;

/// A tree and its expected result.
enum Tree {
    Leaf {
        line: &'static str,
        comes_to: Verdict,
    },
    Group {
        name: &'static str,
        members: Vec<Tree>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Denied,
    WithoutUser,
    Granted,
    Neutral,
}
use Verdict::{Denied, Granted, Neutral, WithoutUser};

const LEAVES: &[(&str, Verdict)] = &[
    ("Require all granted", Granted),
    ("Require all denied", Denied),
    ("Require ip 192.0.2.1", Granted),
    ("Require env nothing", Denied),
    ("Require valid-user", WithoutUser),
    ("Require method GET", Granted),
    ("Require not all granted", Denied),
    ("Require not env nothing", Neutral),
    ("Require not valid-user", Neutral),
];

impl Tree {
    fn random(numbers: &mut Numbers, depth: u32) -> Tree {
        if depth == 0 || numbers.below(3) > 0 {
            let (line, comes_to) = LEAVES[numbers.below(LEAVES.len())];
            return Tree::Leaf { line, comes_to };
        }
        let name = ["RequireAll", "RequireAny", "RequireNone"][numbers.below(3)];
        let members = (0..1 + numbers.below(4)).map(|_| Tree::random(numbers, depth - 1)).collect();
        Tree::Group { name, members }
    }

    /// Returns whether it can only deny, so that Apache does not allow it where any one suffices.
    fn is_negative(&self) -> bool {
        match self {
            Tree::Leaf { line, .. } => line.starts_with("Require not"),
            Tree::Group { name, .. } => *name == "RequireNone",
        }
    }

    fn is_allowed(&self) -> bool {
        match self {
            Tree::Leaf { .. } => true,
            Tree::Group { name, members } => members.iter().all(|member| {
                member.is_allowed() && (*name == "RequireAll" || !member.is_negative())
            }),
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Tree::Leaf { line, .. } => writeln!(text, "{line}").unwrap(),
            Tree::Group { name, members } => {
                writeln!(text, "<{name}>").unwrap();
                members.iter().for_each(|member| member.write(text));
                writeln!(text, "</{name}>").unwrap();
            }
        }
    }

    /// All: the worst decides. Any: the best. None: what any would grant is denied, and nothing
    /// else is said.
    fn verdict(&self) -> Verdict {
        match self {
            Tree::Leaf { comes_to, .. } => *comes_to,
            Tree::Group { name, members } => {
                let verdicts =
                    members.iter().map(Tree::verdict).filter(|verdict| *verdict != Neutral);
                match *name {
                    "RequireAll" => verdicts.min().unwrap_or(Neutral),
                    "RequireAny" => verdicts.max().unwrap_or(Neutral),
                    _ if verdicts.max() == Some(Granted) => Denied,
                    _ => Neutral,
                }
            }
        }
    }
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn trees_come_to_what_the_manual_says() {
    let mut numbers = Numbers(0x5EED);
    let mut seen = [0; 4];
    for _ in 0..4000 {
        let members = (0..1 + numbers.below(3)).map(|_| Tree::random(&mut numbers, 4)).collect();
        let name = ["RequireAny", "RequireAll"][numbers.below(2)];
        let root = Tree::Group { name, members };
        let mut text = String::from(USERS_OF);
        root.write(&mut text);
        if !root.is_allowed() {
            let complaint = crate::testing::try_settings(&text).expect_err(&text);
            assert!(complaint.message.contains("no effect"), "{text}{complaint:?}");
            continue;
        }
        let verdict = root.verdict();
        seen[verdict as usize] += 1;
        let expected = match verdict {
            Granted => 200,
            WithoutUser => 401,
            Denied | Neutral => 403,
        };
        let asked = Asked::new("GET");
        let found = code(check(&mut asked.transaction(), &merged(&[&text]), &mut Site::default()));
        assert_eq!(found, expected, "{text}");
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}
