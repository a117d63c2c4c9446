//! After any change of a tree of files the store says what the disk says, by its events alone.
#![allow(clippy::unwrap_used)] // A test's tools may panic as the test itself.

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use howdah_files::StoreLimits;
use howdah_site::PathKind;
use support::{Counter, Folder};

#[test]
fn with_room_for_everything() {
    (1..=6).for_each(|seed| agree(seed, StoreLimits::default()));
}

#[test]
fn with_hardly_any_room() {
    let limits = StoreLimits {
        entries: 5,
        descriptors: 1,
        memory: 100,
        small: 40,
        folders: 3,
        passing_folders: 2,
        roots: 1,
        copies: 0,
    };
    (11..=14).for_each(|seed| agree(seed, limits));
}

#[test]
fn without_watches() {
    let limits = StoreLimits { folders: 0, ..StoreLimits::default() };
    (21..=22).for_each(|seed| agree(seed, limits));
}

/// Does something at random, then asks about every path. The clock does not move, so no check after
/// a second can help.
fn agree(seed: u64, limits: StoreLimits) {
    let folder = Folder::new();
    let mut random = Random(seed);
    let mut counter = Counter::with(&folder, "follow", limits);
    let mut history = Vec::new();
    for step in 0..STEPS {
        history.push(act(&folder, &mut random, step));
        for _ in 0..8 {
            let name = random.path();
            let (expected, seen) = (on_disk(&folder, &name), in_store(&mut counter, &name));
            let last = history.len().saturating_sub(12);
            assert_eq!(
                seen,
                expected,
                "{name} at step {step} of seed {seed} after {:#?}",
                &history[last..]
            );
        }
    }
}

fn act(folder: &Folder, random: &mut Random, step: u32) -> String {
    let there = everything(&folder.root());
    let old = there
        .get(random.below(there.len().max(1) as u64) as usize)
        .cloned()
        .unwrap_or_else(|| folder.at("a"));
    let new = folder.at(&random.path());
    let target = random.path();
    let content = format!("{step} ").repeat(1 + random.below(20) as usize);
    match random.below(10) {
        0..=2 => {
            note("write", clear_the_way(&new).and_then(|()| fs::write(&new, content)), &new, "")
        }
        3 => note("write again", fs::write(&old, content), &old, ""),
        4 | 5 => note(
            "rename",
            clear_the_way(&new).and_then(|()| fs::rename(&old, &new)),
            &old,
            &new.to_string_lossy(),
        ),
        6 => note("remove", remove(&old), &old, ""),
        7 => {
            let _ = remove(&new);
            note(
                "link",
                clear_the_way(&new).and_then(|()| symlink(folder.at(&target), &new)),
                &new,
                &target,
            )
        }
        8 => {
            let target = ["a", "../a", "b/c", "../b/a", "../../c", "."][random.below(6) as usize];
            note(
                "relative link",
                clear_the_way(&new).and_then(|()| symlink(target, &new)),
                &new,
                target,
            )
        }
        _ => {
            let swapped = clear_the_way(&new).and_then(|()| {
                let temporary = folder.outside("swap");
                let _ = fs::remove_file(&temporary);
                symlink(folder.at(&target), &temporary)?;
                fs::rename(temporary, &new)
            });
            note("swap link", swapped, &new, &target)
        }
    }
}

/// Makes the folders on the way to `path`, whatever is there instead; now and then they are
/// there already.
fn clear_the_way(path: &Path) -> std::io::Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    if parent.is_dir() {
        return Ok(());
    }
    clear_the_way(parent)?;
    let _ = remove(parent);
    fs::create_dir(parent)
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.is_symlink() || path.is_file() {
        fs::remove_file(path)
    } else {
        fs::remove_dir_all(path)
    }
}

/// All that is below `path`, links not followed.
fn everything(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if !entry.path().is_symlink() {
            found.extend(everything(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

fn note(what: &str, result: std::io::Result<()>, one: &Path, other: &str) -> String {
    let end = result.map_or_else(|error| format!(" ({error})"), |()| String::new());
    format!("{what} {} {other}{end}", one.display())
}

#[derive(Debug, PartialEq)]
enum Content {
    File(Vec<u8>),
    Directory,
    Missing,
    Forbidden,
}

fn on_disk(folder: &Folder, name: &str) -> Content {
    let path: PathBuf = folder.at(name);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Content::Directory,
        Ok(_) => Content::File(fs::read(&path).unwrap()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Content::Missing,
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Content::Missing,
        Err(_) => Content::Forbidden, // a loop of links
    }
}

fn in_store(counter: &mut Counter, name: &str) -> Content {
    counter.store.drain_events();
    match counter.kind(name) {
        PathKind::Directory => Content::Directory,
        PathKind::Missing => Content::Missing,
        PathKind::Forbidden => Content::Forbidden,
        PathKind::File => {
            let seen = counter.get_deaf(name);
            assert_eq!(seen.status, 200);
            assert_eq!(seen.field("content-length"), Some(&*seen.content.len().to_string()));
            Content::File(seen.content)
        }
    }
}

/// A generator that needs no crate (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    /// One to four components, each one of three names.
    fn path(&mut self) -> String {
        let names: Vec<&str> =
            (0..=self.below(4)).map(|_| ["a", "b", "c"][self.below(3) as usize]).collect();
        names.join("/")
    }
}

const STEPS: u32 = 600;
