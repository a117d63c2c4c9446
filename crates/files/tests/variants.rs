//! Compressed files beside others are found as they are on the disk.

mod support;

use std::fs;

use howdah_config::ContentCoding::{self, Brotli, Gzip, Zstandard};
use howdah_files::StoreLimits;
use howdah_site::SiteHost;
use support::{Counter, Folder, age};

/// The codings of the variants of `page.html`, of those in `codings` whose paths are served.
fn variants(
    counter: &mut Counter,
    codings: &[ContentCoding],
    is_served: impl Fn(ContentCoding) -> bool,
) -> Vec<ContentCoding> {
    counter.store.drain_events();
    let path = counter.path("page.html");
    let file = counter.store.look(&path).file;
    let paths = ContentCoding::ALL.map(|coding| (coding, counter.variant(&path, coding)));
    let variant = |coding: ContentCoding| {
        let (_, variant) = paths.iter().find(|(other, _)| *other == coding)?;
        variant.clone().filter(|_| is_served(coding))
    };
    let found = counter.store.variants(&path, file, codings, variant);
    for variant in &found {
        let own = counter.store.look(&variant.path).file;
        assert_eq!(variant.file, own, "{:?}", variant.coding);
    }
    found.iter().map(|variant| variant.coding).collect()
}

fn all(counter: &mut Counter) -> Vec<ContentCoding> {
    variants(counter, &ContentCoding::ALL, |_| true)
}

fn page() -> Folder {
    let folder = Folder::new();
    folder.file("page.html", "x");
    folder
}

/// Each state is asked for twice: from the disk, and as it was remembered.
#[track_caller]
fn assert_found(counter: &mut Counter, expected: &[ContentCoding]) {
    assert_eq!(all(counter), expected);
    assert_eq!(all(counter), expected, "remembered");
}

#[test]
fn variants_come_go_and_grow_old() {
    let folder = page();
    let mut counter = Counter::new(&folder);
    assert_found(&mut counter, &[]);
    let gzip = folder.file("page.html.gz", "g");
    age(&gzip, 60);
    assert_found(&mut counter, &[Gzip]);
    let zstd = folder.file("page.html.zst", "z");
    age(&zstd, 60);
    assert_found(&mut counter, &[Zstandard, Gzip]);
    age(&gzip, 7200);
    assert_found(&mut counter, &[Zstandard]);
    age(&folder.at("page.html"), 30);
    assert_found(&mut counter, &[]);
    age(&zstd, 30 - 1);
    assert_found(&mut counter, &[Zstandard]);
    fs::remove_file(&zstd).unwrap();
    assert_found(&mut counter, &[]);
    fs::create_dir(folder.at("page.html.br")).unwrap();
    assert_found(&mut counter, &[]);
    counter.wait(1);
    assert_found(&mut counter, &[]);
}

#[test]
fn sites_with_the_same_files_may_want_and_serve_other_variants() {
    let folder = page();
    for name in ["page.html.gz", "page.html.br"] {
        age(&folder.file(name, "v"), 60);
    }
    let mut counter = Counter::new(&folder);
    for _ in 0..2 {
        assert_eq!(variants(&mut counter, &[Gzip], |_| true), [Gzip]);
        assert_eq!(variants(&mut counter, &[Gzip, Brotli], |_| true), [Gzip, Brotli]);
        assert_eq!(variants(&mut counter, &[Brotli, Gzip], |coding| coding != Gzip), [Brotli]);
        assert_eq!(variants(&mut counter, &[Brotli, Gzip], |_| false), []);
        assert_eq!(all(&mut counter), [Brotli, Gzip]);
    }
}

#[test]
fn a_variant_in_a_folder_that_is_not_watched_is_looked_for_each_time() {
    let folder = page();
    // Nothing is watched in a folder beyond the bound.
    let limits = StoreLimits { folders: 0, ..StoreLimits::default() };
    let mut counter = Counter::with(&folder, "owner", limits);
    assert_found(&mut counter, &[]);
    let gzip = folder.file("page.html.gz", "g");
    age(&gzip, 60);
    assert_found(&mut counter, &[Gzip]);
    fs::remove_file(gzip).unwrap();
    assert_found(&mut counter, &[]);
}
