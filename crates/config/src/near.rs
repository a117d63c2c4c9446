//! Finding the name that was probably meant.

/// The name of `known` that is nearest to `name`, if it is near enough to be a slip of the finger.
/// `None` if none is.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let name = name.to_lowercase().replace('-', "_");
    let allowed = (name.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (distance(&name, candidate), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The number of letters that must be inserted, removed, replaced or swapped with their neighbour
/// to turn `a` into `b` (the optimal string alignment distance).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let rows = [
            ("", "", 0),
            ("", "ab", 2),
            ("root", "root", 0),
            ("rot", "root", 1),
            ("orot", "root", 1),
            ("kitten", "sitting", 3),
        ];
        for (a, b, expected) in rows {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        let known = ["listen", "threads", "user", "request_timeout"];
        let rows = [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("request-timeout", Some("request_timeout")),
            ("thread", Some("threads")),
            ("colour", None),
            ("xy", None),
        ];
        for (name, expected) in rows {
            assert_eq!(nearest(name, &known), expected, "{name}");
        }
    }
}
