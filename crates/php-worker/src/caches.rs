//! Warnings about caches that are full.

use howdah_ipc::figures::{CacheNumber, CacheNumbers};

use crate::log::{self, Level};

const OPCACHE_FULL: &str = "opcache is full: scripts that it does not have are compiled at each \
                            request; raise opcache.memory_consumption or \
                            opcache.max_accelerated_files in the site's `admin_ini`";
const APCU_FULL: &str = "APCu was full and has thrown entries away; raise apc.shm_size in the \
    site's `admin_ini`";

/// Logs a warning for each cache that has become full since the `former` figures of the pool.
pub fn warn(former: &CacheNumbers, now: &CacheNumbers) {
    for message in messages(former, now) {
        log::write(Level::Warning, message.as_bytes(), None);
    }
}

fn messages(
    former: &CacheNumbers,
    now: &CacheNumbers,
) -> impl Iterator<Item = &'static str> + use<> {
    let grew = |number: CacheNumber| now[number as usize] > former[number as usize].max(0);
    let opcache = grew(CacheNumber::OpcacheFull).then_some(OPCACHE_FULL);
    let apcu = grew(CacheNumber::ApcuExpunged).then_some(APCU_FULL);
    opcache.into_iter().chain(apcu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_ipc::figures::UNKNOWN;

    #[test]
    fn a_cache_that_becomes_full_is_told_once() {
        let numbers = |full: i64, expunged: i64| {
            let mut numbers = [UNKNOWN; CacheNumber::COUNT];
            numbers[CacheNumber::OpcacheFull as usize] = full;
            numbers[CacheNumber::ApcuExpunged as usize] = expunged;
            numbers
        };
        let rows = [
            ((-1, -1), (-1, -1), vec![]),
            ((-1, -1), (0, 0), vec![]),
            ((-1, -1), (1, 2), vec![OPCACHE_FULL, APCU_FULL]),
            ((1, 2), (1, 2), vec![]),
            ((1, 2), (1, 3), vec![APCU_FULL]),
            ((0, 0), (1, 0), vec![OPCACHE_FULL]),
        ];
        for ((full, expunged), (now, later), expected) in rows {
            let told = messages(&numbers(full, expunged), &numbers(now, later));
            assert_eq!(told.collect::<Vec<_>>(), expected);
        }
    }
}
