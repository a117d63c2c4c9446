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

/// The key that is equal to a setting of php-fpm, by the setting's name or its last part. `None`
/// for other names.
pub(crate) fn of_php_fpm(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let last = name.rsplit(['.', '-']).next().unwrap_or(&name);
    let equal = match last {
        "pm" => "mode",
        "max_children" => "workers",
        "start_servers" => "start_workers",
        "min_spare_servers" => "min_spare_workers",
        "max_spare_servers" => "max_spare_workers",
        "process_idle_timeout" => "idle_timeout",
        "request_slowlog_timeout" | "slowlog" => "slow_after",
        "request_slowlog_trace_depth" => "slow_trace_depth",
        "limit_extensions" => "extensions",
        "php_value" | "php_flag" => "ini",
        "php_admin_value" | "php_admin_flag" => "admin_ini",
        "rlimit_files" | "rlimit_core" => "rlimits",
        _ => return None,
    };
    Some(equal)
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
