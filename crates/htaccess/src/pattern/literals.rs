//! Literals that every subject of a pattern must contain to match.

use super::syntax::{Alternative, PatternNode, PatternTree};

/// Returns words of which every subject of a match contains at least one, in either case. They are
/// in lower case, none empty. `None` where nothing is known.
pub(super) fn of(tree: &PatternTree) -> Option<Vec<Vec<u8>>> {
    of_branches(&tree.branches)
}

/// The words for one pattern at most; more are of little use.
const MOST: usize = 256;

fn of_branches(branches: &[Alternative]) -> Option<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for branch in branches {
        all.extend(of_branch(branch)?);
        if all.len() > MOST {
            return None;
        }
    }
    Some(all)
}

/// Returns words of which each match of the branch has at least one. `None`: no such words are
/// known.
pub(super) fn of_branch(branch: &Alternative) -> Option<Vec<Vec<u8>>> {
    let mut best: Option<Vec<Vec<u8>>> = None;
    let mut run: Vec<u8> = Vec::new();
    let mut offer = |words: Vec<Vec<u8>>| {
        let better = best.as_ref().is_none_or(|best| worth(&words) > worth(best));
        if better && words.iter().all(|word| !word.is_empty()) {
            best = Some(words);
        }
    };
    for item in branch {
        match &item.node {
            PatternNode::Byte(byte) if item.min >= 1 => {
                run.push(byte.to_ascii_lowercase());
                if !item.is_once() {
                    offer(vec![std::mem::take(&mut run)]);
                }
            }
            PatternNode::Start | PatternNode::End | PatternNode::Assertion => {}
            PatternNode::Group { branches, .. } if item.min >= 1 => {
                offer(vec![std::mem::take(&mut run)]);
                if let Some(words) = of_branches(branches) {
                    offer(words);
                }
            }
            _ => offer(vec![std::mem::take(&mut run)]),
        }
    }
    offer(vec![run]);
    best
}

/// Long words are rare, and few words are.
fn worth(words: &[Vec<u8>]) -> (usize, usize) {
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    (shortest, MOST - words.len().min(MOST))
}
