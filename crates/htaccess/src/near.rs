//! The nearest known name for a misspelt one.

/// Returns the name of `known` that is nearest to `name`, if at most two typing errors are between
/// them. `None` if no name is as near.
pub(crate) fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let name = name.to_ascii_lowercase();
    let allowed = match name.len() {
        0..=3 => return None,
        4..=6 => 1,
        7..=LONGEST => 2,
        _ => return None,
    };
    known
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| {
            (distance(name.as_bytes(), candidate.to_ascii_lowercase().as_bytes()), candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// No directive's name is as long: the time for each is bounded.
const LONGEST: usize = 48;

/// Returns the number of letters to insert, remove, replace or swap with their neighbour.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let width = to.len() + 1;
    let mut table = vec![0; (from.len() + 1) * width];
    for row in 0..=from.len() {
        for column in 0..=to.len() {
            let at = |row: usize, column: usize| row * width + column;
            table[at(row, column)] = if row == 0 || column == 0 {
                row + column
            } else {
                let differs = usize::from(from[row - 1] != to[column - 1]);
                let mut least = (table[at(row - 1, column)] + 1)
                    .min(table[at(row, column - 1)] + 1)
                    .min(table[at(row - 1, column - 1)] + differs);
                if row > 1
                    && column > 1
                    && from[row - 1] == to[column - 2]
                    && from[row - 2] == to[column - 1]
                {
                    least = least.min(table[at(row - 2, column - 2)] + 1);
                }
                least
            };
        }
    }
    table[from.len() * width + to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_of_the_finger_find_their_name() {
        let known = || ["RewriteEngine", "RewriteRule", "Deny", "Order", "Options"].into_iter();
        for (name, near) in [
            ("RewriteEngin", Some("RewriteEngine")),
            ("rewriterul", Some("RewriteRule")),
            ("Optoins", Some("Options")),
            ("Dney", Some("Deny")),
            ("Foo", None),
            ("SecRuleEngine", None),
            (&"RewriteRule".repeat(20), None),
        ] {
            assert_eq!(nearest(name, known()), near, "{name}");
        }
    }
}
