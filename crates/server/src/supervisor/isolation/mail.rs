//! `mail()` hands messages to `sendmail`, which often needs rights that `no_new_privs` keeps from
//! it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use howdah_config::{Config, Php};

/// Programs of Debian's mail servers that a message from `mail()` passes: exim4 and dma, postfix,
/// nullmailer.
pub(super) const PROGRAMS: [&str; 3] =
    ["/usr/sbin/sendmail", "/usr/sbin/postdrop", "/usr/sbin/nullmailer-queue"];

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;

/// Returns a notice if a site's `mail()` depends on a program that gets no rights. `None`: no site
/// depends on one.
pub(super) fn notice(config: &Config, programs: &[&Path]) -> Option<String> {
    let uses_sendmail = |php: &Php| {
        let settings = || php.ini.iter().chain(&php.admin_ini);
        php.no_new_privs && !settings().any(|(name, _)| name == "sendmail_path")
    };
    let site = config.sites.iter().find(|site| site.php.as_ref().is_some_and(uses_sendmail))?;
    let is_set_id =
        |path: &&Path| path.metadata().is_ok_and(|found| found.permissions().mode() & SET_ID != 0);
    let program = programs.iter().copied().find(is_set_id)?.canonicalize().ok()?;
    Some(format!(
        "mail() of PHP will probably fail (site {}{}): {} needs rights that `no_new_privs` keeps \
         from it; set `sendmail_path` to msmtp, or `no_new_privs = false`; see docs/security.md",
        site.name,
        if config.sites.len() > 1 { " and others" } else { "" },
        program.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn tells_of_a_sendmail_that_needs_rights() {
        let path = std::env::current_exe()
            .unwrap()
            .with_extension(format!("sendmail-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let config = |php: &str| {
            let text = format!("[[site]]\nname = \"shop\"\nroot = \"/srv\"\n[site.php]\n{php}\n");
            Config::parse(&text, "howdah.toml").unwrap()
        };
        for (mode, php, is_told) in [
            (0o4755, "", true),
            (0o2755, "", true),
            (0o755, "", false),
            (0o4755, "no_new_privs = false", false),
            (0o4755, "admin_ini = { sendmail_path = \"/usr/bin/msmtp -t\" }", false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let told = notice(&config(php), &[Path::new("/no/such/program"), &path]);
            assert_eq!(told.is_some(), is_told, "{mode:o} {php} {told:?}");
        }
        fs::remove_file(&path).unwrap();
    }
}
