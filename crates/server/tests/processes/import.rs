//! `howdah import`.

use crate::support::{Folder, Setup};

#[test]
fn pools_of_php_fpm_become_a_configuration_that_is_good() {
    let folder = Folder::new();
    let pool = "[blog]\nuser = nobody\nlisten = /run/php.sock\npm = ondemand\n\
                pm.max_children = 5\npm.process_idle_timeout = 5s\n\
                pm.status_path = /fpm-status\nphp_admin_value[memory_limit] = 64M\n\
                request_terminate_timeout = 90\n";
    let pool = folder.file("fpm/pool.d/blog.conf", pool);
    let php_ini = folder.file("fpm/php.ini", "upload_max_filesize = 77M\n");
    let (code, config, remarks) = Setup::with(&["import", "fpm", pool.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{remarks}");
    let expected = format!("howdah: {}:3: `listen = /run/php.sock` has no equal: ", pool.display());
    assert!(remarks.starts_with(&expected) && remarks.lines().count() == 1, "{remarks}");
    for line in [
        "mode = \"ondemand\"",
        "workers = 5",
        "idle_timeout = \"5s\"",
        "status_path = \"/fpm-status\"",
        "memory_limit = \"64M\"",
        "request_timeout = \"90s\"",
        "request_terminate_timeout = \"90s\"",
        &format!("ini_file = \"{}\"", php_ini.display()),
    ] {
        assert!(config.lines().any(|found| found == line), "{line} in {config}");
    }
    let root = folder.folder("public");
    let config = config.replace("/var/www/html", root.to_str().unwrap());
    let config = config.replace("sapi =", "state_dir = \"state\"\nsapi =");
    let file = folder.file("howdah.toml", config);
    let (code, told, errors) = Setup::with(&["check", "--config", file.to_str().unwrap()]).run();
    assert_eq!(code, Some(0), "{told}{errors}");
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let (code, _, told) = Setup::with(&["import", "fpm", "/no/such/file.conf"]).run();
    assert_eq!(code, Some(1));
    assert!(told.starts_with("howdah: /no/such/file.conf: "), "{told}");
}
