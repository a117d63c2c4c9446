//! The list of all attacks, and a test for each.

use crate::attack::{self, Attack, Means};

/// Declares the attacks, each with a test of its name.
macro_rules! attacks {
    ($($name:ident: $attack:expr;)*) => {
        /// Every attack, in the order of the table.
        pub const ALL: &[Attack] = &[$($attack),*];
        $(
            #[test]
            fn $name() {
                crate::attack(&stringify!($name).replace('_', "-"));
            }
        )*
    };
}

use Means::{Client, Extension, Library, Script};

attacks! {
    read_files: Attack::new("read-files", Script(2));
    read_memory: Attack::new("read-memory", Script(2));
    signal_others: Attack::new("signal-others", Script(2));
    signal_front_as_default_user: Attack::new("signal-front-as-default-user", Script(2)).as_default_user();
    control_socket: Attack::new("control-socket", Script(1));
    terminal: Attack::new("terminal", Script(1));
    listen: Attack::new("listen", Script(2));
    kill_all: Attack::new("kill-all", Script(1)).with_own_visitors();
    garbage_in_region: Attack::new("garbage-in-region", Script(3));
    shrink_region: Attack::new("shrink-region", Script(2));
    drain_doorbells: Attack::new("drain-doorbells", Script(2)).with_own_visitors();
    zygote: Attack::new("zygote", Extension);
    thread: Attack::new("thread", Library(4));
    forged_answers: Attack::new("forged-answers", Client);
    endless_heads: Attack::new("endless-heads", Client);
    memory: Attack::new("memory", Script(4));
    shared_memory: Attack::new("shared-memory", Script(3)).on_own_memory();
    descriptors: Attack::new("descriptors", Script(2));
    processor: Attack::new("processor", Script(8));
    priorities: Attack::new("priorities", Script(4));
    timers: Attack::new("timers", Script(3));
    brief_processes: Attack::new("brief-processes", Script(3));
    disk_load: Attack::new("disk-load", Script(3));
    deaths: Attack::new("deaths", Script(4)).with_own_visitors();
    huge_files: Attack::new("huge-files", Script(2));
    rule_secrets: Attack::new("rule-secrets", Script(1));
    many_links: Attack::new("many-links", Script(4));
    deep_folders: Attack::new("deep-folders", Script(4));
    changing_files: Attack::new("changing-files", Script(3));
    leases: Attack::new("leases", Script(2));
    special_files: Attack::new("special-files", Script(2));
    link_race: Attack::new("link-race", Script(3));
    root_link: Attack::new("root-link", Script(1)).owning_home();
    costly_conditions: Attack::new("costly-conditions", Script(4));
    long_expressions: Attack::new("long-expressions", Script(4));
    long_fields: Attack::new("long-fields", Script(4));
    costly_files: Attack::new("costly-files", Script(4));
    large_rules: Attack::new("large-rules", Script(3));
    costly_listing: Attack::new("costly-listing", Script(4));
    costly_filters: Attack::new("costly-filters", Script(4));
    many_preferences: Attack::new("many-preferences", Script(4));
    many_variables: Attack::new("many-variables", Script(4));
    connection_fields: Attack::new("connection-fields", Script(3)).with_upstream();
    pieces: Attack::new("pieces", Script(3)).with_upstream();
    distinct_names: Attack::new("distinct-names", Script(4));
    passwords: Attack::new("passwords", Client);
    slow_readers: Attack::new("slow-readers", Client);
    slow_clients: Attack::new("slow-clients", Client);
    request_flood: Attack::new("request-flood", Client);
    block_doorbells: Attack::new("block-doorbells", Script(2)).with_own_visitors();
    garbage_in_sockets: Attack::new("garbage-in-sockets", Script(3));
    hanging_preload: Attack::new("hanging-preload", Script(1)).with_preload();
    stop_own_pool: Attack::new("stop-own-pool", Script(1)).with_own_visitors();
    fork: Attack::new("fork", Script(3)).with_own_visitors();
    survive: Attack::new("survive", Script(1));
    fork_bomb: Attack::new("fork-bomb", Script(2)).with_pids(200);
    log_flood: Attack::new("log-flood", Script(4));
    uploads: Attack::new("uploads", Client);
    user_names: Attack::new("user-names", Client);
}

/// The attack of that name.
pub fn find(name: &str) -> &'static Attack {
    ALL.iter().find(|attack| attack.name == name).expect("each test has its attack")
}

#[test]
fn every_file_is_an_attack_with_a_header() {
    let mut files: Vec<String> = std::fs::read_dir(attack::folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| Some(name.strip_suffix(".php")?.to_owned()))
        .filter(|name| name != "attack")
        .collect();
    files.sort();
    let mut names: Vec<&str> = ALL.iter().map(|attack| attack.name).collect();
    names.sort();
    assert_eq!(files, names);
    for attack in ALL {
        let header = attack.header();
        for part in [header.title, header.attacker, header.must_not, header.checked] {
            assert!(part.len() > 10, "{}: {part:?}", attack.name);
        }
    }
}
