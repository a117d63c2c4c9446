//! Measurements of workers' memory that a former generation has made.

use std::path::Path;

use howdah_sys::signal::{SIGHUP, SIGUSR2};

use crate::config;
use crate::support::{Folder, Process, Setup, has_php, status, wait_until};

const MIB: u64 = 1 << 20;

/// The sum of memory of the pool.
fn memory_sum(file: &Path) -> serde_json::Value {
    let (_, told, errors) =
        Setup::with(&["status", "--json", "--config", &file.display().to_string()]).run();
    let all: serde_json::Value = serde_json::from_str(&told).expect(&errors);
    let sites = all["sites"].as_array().unwrap();
    let shop = sites.iter().find(|site| site["name"] == "shop").unwrap();
    shop["pool"]["memory_sum"].clone()
}

#[test]
fn a_new_generation_knows_what_the_former_one_has_measured_of_its_workers() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("$text = str_repeat('x', 6 << 20); echo 'page';");
    let with = |precision: u32| {
        // PHP does not tell its settings then.
        let site = format!(
            "[site.php]\nini = {{ precision = {precision} }}\n\
             admin_ini = {{ disable_functions = \"ini_get_all\" }}"
        );
        config(&folder, "probation = \"0s\"", &site)
    };
    let file = with(7);
    let server = Setup::config(&file).start();
    let each = || memory_sum(&file)["per_worker"].as_u64().unwrap() / MIB;
    let reload = || {
        let (status, _, told) =
            Setup::with(&["reload", "--config", &file.display().to_string()]).run();
        assert_eq!(status, Some(0), "{told}");
        wait_until("the new one has looked", || memory_sum(&file)["is_former"].is_boolean());
    };
    assert_eq!(memory_sum(&file)["is_former"], false);
    assert_eq!(server.get("/").text(), "page");
    wait_until("a worker has measured itself", || (7..32).contains(&each()));
    reload();
    wait_until("PHP has told its settings", || memory_sum(&file)["is_former"] == true);
    assert!((7..32).contains(&each()), "{}", memory_sum(&file));
    assert!(status(&file).contains(" each, as measured before\n"), "{}", status(&file));
    assert_eq!(server.get("/").text(), "page");
    wait_until("its own script counts", || memory_sum(&file)["is_former"] == false);
    // No reload: the zygote has died.
    server.kill_zygote();
    wait_until("the next one has looked", || memory_sum(&file)["is_former"] == true);
    assert!(status(&file).contains(" each, as measured before\n"), "{}", status(&file));
    assert_eq!(server.get("/").text(), "page");
    wait_until("its own script counts", || memory_sum(&file)["is_former"] == false);
    // With another ini the scripts may need anything.
    with(8);
    reload();
    assert_eq!((&memory_sum(&file)["is_former"], each()), (&false.into(), 64));
    server.stop();
}

#[test]
fn a_new_program_knows_what_the_former_one_has_measured_unless_php_ini_has_changed() {
    if !has_php() {
        return;
    }
    let folder = Folder::with_script("$text = str_repeat('x', 6 << 20); echo 'page';");
    let ini = |precision: u32| folder.file("php.ini", format!("precision = {precision}\n"));
    ini(7);
    let site = "[site.php]\nini_file = \"php.ini\"";
    let file = config(&folder, "probation = \"0s\"", site);
    let server = Setup::config(&file).start();
    let each = || memory_sum(&file)["per_worker"].as_u64().unwrap() / MIB;
    let replace = |what: &dyn Fn()| {
        let before = server.supervisor().children();
        what();
        wait_until("the former generation has gone", || !before.iter().any(Process::lives));
        wait_until("the new one has looked", || memory_sum(&file)["is_former"].is_boolean());
    };
    let upgrade = || replace(&|| server.signal(SIGUSR2));
    assert_eq!(server.get("/").text(), "page");
    wait_until("a worker has measured itself", || (7..32).contains(&each()));
    // Twice: the second program has measured nothing.
    for _ in 0..2 {
        upgrade();
        wait_until("PHP has told its settings", || memory_sum(&file)["is_former"] == true);
        assert!((7..32).contains(&each()), "{}", memory_sum(&file));
    }
    ini(8);
    upgrade();
    assert_eq!((&memory_sum(&file)["is_former"], each()), (&false.into(), 64));
    assert_eq!(server.get("/").text(), "page");
    wait_until("a worker has measured itself", || (7..32).contains(&each()));
    ini(9);
    replace(&|| server.signal(SIGHUP));
    assert_eq!((&memory_sum(&file)["is_former"], each()), (&false.into(), 64));
    server.stop();
}
