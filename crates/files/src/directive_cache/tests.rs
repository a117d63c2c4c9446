//! Tests of the directive cache.

use super::shard::MOST_FILES;
use super::*;

fn entry(owner: DirectiveOwner, weight: usize) -> CachedDirectives {
    CachedDirectives {
        owner,
        digest: 0,
        stat: None,
        weight,
        was_asked: false,
        compiled: Arc::new(compile_asking(b"", &CompileContext::default(), &mut |_| false)),
    }
}

fn key(number: usize) -> Box<[u8]> {
    number.to_ne_bytes().into()
}

fn cache() -> DirectiveCache {
    DirectiveCache::of(SiteRoots::default(), 0, Box::new(|_, _| {}))
}

/// The number of entries of each owner from 0 on, after a check of the sum.
fn entries<const OWNERS: usize>(cache: &DirectiveCache) -> [usize; OWNERS] {
    let (mut counts, mut sum) = ([0; OWNERS], 0);
    for shard in &cache.shards {
        for entry in lock(shard).entries.values() {
            counts[entry.owner as usize] += 1;
            sum += entry.weight;
        }
    }
    assert_eq!(cache.weight.load(Ordering::Relaxed), sum);
    counts
}

#[test]
fn a_shard_is_bounded_in_files() {
    let mut shard = CacheShard::default();
    let mut weight = 0;
    for number in 0..3 * MOST_FILES / SHARDS {
        weight = weight + 10 - shard.insert(key(number), entry(0, 10)).weight;
        assert!(shard.entries.len() <= MOST_FILES / SHARDS);
        assert_eq!(weight, 10 * shard.entries.len());
        let replaced = shard.insert(key(number), entry(0, 10));
        assert_eq!((replaced.weight, replaced.rules.len()), (10, 1));
    }
}

#[test]
fn an_event_loop_never_frees_rules_that_are_not_in_the_cache_any_more() {
    let cache = cache();
    cache.keep(key(1), entry(0, HEAVY));
    let in_use = cache.find(&key(1), &DiskAccess::waiting(), |_| true).unwrap();
    cache.keep(key(1), entry(0, HEAVY));
    cache.free_removed();
    assert!(cache.has_removed() && !cache.freed().wait(std::time::Duration::ZERO));
    assert_eq!(Arc::strong_count(&in_use), 2, "the cache frees them later");
    drop(in_use);
    cache.free_removed();
    assert!(!cache.has_removed());
    assert!(cache.freed().wait(std::time::Duration::ZERO), "the kernel gets them back");
}

#[test]
fn used_directives_are_kept() {
    let mut shard = CacheShard::default();
    for number in 0..2 * MOST_FILES / SHARDS {
        shard.insert(key(number), entry(0, 1));
        if let Some(entry) = shard.entries.get_mut(&key(7)) {
            entry.was_asked = true;
        }
    }
    assert!(shard.entries.contains_key(&key(7)));
    assert!(!shard.entries.contains_key(&key(8)));
}

#[test]
fn a_site_with_many_files_takes_its_own_places() {
    let mut shard = CacheShard::default();
    for number in 0..3 * MOST_FILES / SHARDS {
        shard.insert(key(number), entry(u64::from(number >= 10), 1));
    }
    assert!((0..10).all(|number| shard.entries.contains_key(&key(number))));
}

#[test]
fn the_document_roots_of_the_hosts_of_one_site_have_one_owner() {
    let text = "[[site]]\nhosts = [\"*.example\"]\nroot = \"/home/{host}/public\"\n\
                php = false\n\
                [[site]]\nhosts = [\"other.example\"]\nroot = \"/home/other/public\"\n\
                php = false\n\
                [[site]]\nhosts = [\"last.example\"]\nroot = \"/srv\"\nphp = false\n";
    let config = howdah_config::Config::parse(text, "test.toml").unwrap();
    let sites = Sites::compile(&config);
    let cache = DirectiveCache::new(&sites, 0, Box::new(|_, _| {}));
    let owner = |root: &str| cache.owner(root.as_bytes());
    assert_eq!(owner("/home/a.example/public"), owner("/home/b.example/public/"));
    for other in ["/home/other/public", "/srv", "/home/a/b/public"] {
        assert_ne!(owner("/home/a.example/public"), owner(other), "{other}");
        assert_eq!(owner(other), owner(&format!("{other}/")), "{other}");
    }
}

/// Both sites have one scope: their directives mean the same.
#[test]
fn a_flaw_is_told_of_the_site_that_has_the_root() {
    let text = "[[site]]\nhosts = [\"a.example\"]\nroot = \"/srv/a\"\nphp = false\n\
                [[site]]\nhosts = [\"b.example\"]\nroot = \"/srv/b/\"\nphp = false\n\
                [[site]]\nhosts = [\"*.example\"]\nroot = \"/home/{host}\"\nphp = false\n";
    let sites = Sites::compile(&howdah_config::Config::parse(text, "test.toml").unwrap());
    assert!(sites.iter().all(|site| site.scope() == 0));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = {
        let told = Arc::clone(&told);
        move |site: &Site, _: &DirectiveFlaw| lock(&told).push(site.name().to_owned())
    };
    let cache = DirectiveCache::new(&sites, 0, Box::new(tell));
    for root in ["/srv/a", "/srv/b", "/srv/b/", "/home/x.example", "/elsewhere"] {
        let folder = format!("{root}/folder/");
        let place = (root.as_bytes(), folder.as_bytes());
        cache.htaccess(0, place, (b"Bogus", None)).unwrap();
        cache.too_large(0, place).unwrap();
    }
    let expected = ["a.example", "b.example", "b.example", "example", "a.example"];
    let expected: Vec<_> = expected.iter().flat_map(|name| [name, name]).collect();
    assert_eq!(lock(&told).iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_site_with_large_files_takes_its_own_places() {
    let cache = cache();
    (0..100).for_each(|number| cache.keep(key(number), entry(0, MOST_OF_ROOT / 400)));
    assert_eq!(entries(&cache), [100]);
    for number in 100..120 {
        cache.keep(key(number), entry(1, MOST_OF_ROOT / 4));
        let [small, large] = entries(&cache);
        assert!(small == 100 && large <= 3, "{small} and {large}");
    }
    assert_eq!(cache.evicted_since(0), (HashSet::from([1]), 17));
    assert_eq!(cache.evicted_since(17), (HashSet::new(), 17));
    cache.keep(key(119), entry(1, MOST_OF_ROOT / 4));
    assert_eq!(entries(&cache), [100, 3], "replaced");
    assert_eq!(cache.evicted_since(17), (HashSet::from([1]), 18), "threads have the former one");
    cache.keep(key(5), entry(0, MOST_OF_ROOT / 400));
    assert_eq!(cache.evictions(), 18, "it was small");
    cache.keep(key(200), entry(2, 2 * MOST_OF_ROOT));
    assert_eq!(entries(&cache), [0, 0, 1]);
    cache.keep(key(201), entry(0, 10));
    assert_eq!(entries(&cache), [1, 0, 0]);
}

#[test]
fn sites_share_a_part_of_the_machines_memory_and_none_has_more_than_its_own() {
    let cache = cache().in_memory(4 * MOST_OF_ROOT as u64 * PART_OF_MEMORY);
    for number in 0..40 {
        cache.keep(key(number), entry(number as u64 % 4, MOST_OF_ROOT / 4));
    }
    assert_eq!(entries(&cache), [4; 4]);
    (40..50).for_each(|number| cache.keep(key(number), entry(4, MOST_OF_ROOT / 4)));
    let counts: [usize; 5] = entries(&cache);
    assert_eq!((counts[4], counts.iter().sum()), (4, 16), "{counts:?}");
    assert!(counts.iter().all(|count| (2..=4).contains(count)), "{counts:?}");
}

#[test]
fn of_a_site_s_files_those_in_use_are_kept() {
    let cache = cache();
    for number in 0..40 {
        cache.keep(key(number), entry(0, MOST_OF_ROOT / 4));
        let mut shard = cache.shard(&key(0));
        shard.entries.get_mut(&key(0)).unwrap().was_asked = true;
    }
    assert_eq!(entries(&cache), [4]);
}

#[test]
fn what_a_content_weighs_follows_its_directives() {
    let rules = b"# a comment\n\n  RewriteEngine On\nRewriteRule a b\n";
    assert_eq!(weight(rules), 2 * rules.len() + 2 * DIRECTIVE);
    assert_eq!(weight(b""), 0);
}
