//! The load of the server (`Header set X-Load "%l %i %b"`).

use howdah_htaccess::host::ServerLoad;
use howdah_php::Pool;

/// Returns the machine's load averages, and the shares of a site's PHP workers that are idle and
/// busy.
pub(super) fn of(pool: Option<&Pool>) -> ServerLoad {
    let averages = std::fs::read(AVERAGES).unwrap_or_default();
    let (idle, all) = pool.map_or((0, 0), |pool| (pool.load().0, pool.worker_count()));
    let (idle, busy) = percent(idle, all);
    ServerLoad {
        averages: read_averages(&averages),
        idle,
        busy,
    }
}

/// Reads the three numbers at the start of the kernel's line; 0 for a missing one.
fn read_averages(line: &[u8]) -> [f64; 3] {
    let mut words = line.split(u8::is_ascii_whitespace);
    [(); 3].map(|()| {
        let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
        word.and_then(|word| word.parse().ok()).unwrap_or_default()
    })
}

/// Returns the idle workers and the others in percent of all; zero of zero.
fn percent(idle: usize, all: usize) -> (u8, u8) {
    let share = idle.min(all).saturating_mul(100).checked_div(all);
    let idle = share.and_then(|share| u8::try_from(share).ok());
    idle.map_or((0, 0), |idle| (idle, 100 - idle))
}

const AVERAGES: &str = "/proc/loadavg";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_are_read() {
        assert_eq!(read_averages(b"0.20 1.18 12.00 1/80 11206\n"), [0.2, 1.18, 12.0]);
        assert_eq!(read_averages(b"0.5 x"), [0.5, 0.0, 0.0]);
        assert_eq!(read_averages(b""), [0.0; 3]);
    }

    #[test]
    fn shares_are_of_a_hundred() {
        let rows = [
            (0, 0, (0, 0)),
            (0, 4, (0, 100)),
            (1, 3, (33, 67)),
            (4, 4, (100, 0)),
            (5, 4, (100, 0)),
        ];
        for (idle, all, expected) in rows {
            assert_eq!(percent(idle, all), expected, "{idle} of {all}");
        }
    }
}
