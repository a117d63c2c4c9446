//! Files and folders that PHP needs for its start, and that a pool's user may not use. Root, who
//! checks, could use them all.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use howdah_sys::credentials::{self, Identity};

use crate::supervisor::environment::Environment;
use crate::supervisor::generation_plan::{GenerationPlan, PoolPlan};

/// Returns a warning for each of them. The plan has warnings about files and folders that are not
/// there, but not about a script for preloading.
pub(crate) fn obstacles(plan: &GenerationPlan, environment: &Environment) -> Vec<String> {
    let mut warnings = Vec::new();
    for pool in &plan.pools {
        let site = &pool.settings.pool;
        let owner = pool.owner(environment);
        let mut found = unusable_paths(pool);
        found.extend(strange_state_folder(pool, owner, environment.identity.uid));
        warnings.extend(found.into_iter().map(|what| format!("site {site}: {what}")));
    }
    warnings
}

/// Looks with the rights of the pool's user.
fn unusable_paths(pool: &PoolPlan) -> Vec<String> {
    let settings = &pool.settings;
    let preload = |list: &[(String, String)]| {
        let is_absolute =
            |(name, path): &&(String, String)| name == "opcache.preload" && path.starts_with('/');
        list.iter().rfind(is_absolute).map(|(_, path)| path.clone())
    };
    let preload = preload(&settings.admin_ini).or_else(|| preload(&settings.ini));
    // With `chroot` the folder is entered by workers only.
    let chdir = Some(&settings.working_directory).filter(|_| settings.chroot.is_empty());
    let look = || {
        let open = |path: &str| File::open(path).map(drop);
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        let mut found = Vec::new();
        if let Some(error) = open(&settings.ini_file).err().filter(refused) {
            found.push(("php.ini_file", settings.ini_file.clone(), error));
        }
        let enter = |path: &String| fs::metadata(Path::new(path).join(".")).map(drop);
        if let Some(folder) = chdir
            && let Some(error) = enter(folder).err().filter(refused)
        {
            found.push(("php.chdir", folder.clone(), error));
        }
        if let Some(script) = &preload
            && let Err(error) = open(script)
        {
            found.push(("opcache.preload", script.clone(), error));
        }
        found
    };
    let looked = match &pool.identity {
        Some(owner) => credentials::with_rights_of(owner, look),
        None => Ok(look()),
    };
    let told = |(key, path, error): (&str, String, io::Error)| {
        let user = pool.identity.as_ref().map(|owner| format!(" as {}", owner.name));
        let user = user.unwrap_or_default();
        format!("`{key}`: {path}: {error}; PHP does not start{user} without it")
    };
    // The plan has found the user, and the trial start of PHP tells what fails.
    looked.unwrap_or_default().into_iter().map(told).collect()
}

/// Returns the reason why the pool's state folder, or the one above it, is not for `owner`; `None`
/// where it is, or is not there yet. `ours` is this process's user.
fn strange_state_folder(pool: &PoolPlan, owner: &Identity, ours: u32) -> Option<String> {
    let folder = Path::new(&pool.settings.state_dir);
    let refused = |path: &Path, why: String| {
        format!(
            "`php.state_dir`: {}: {why}; PHP does not start; give the folder to {}, remove it, or \
             name another one",
            path.display(),
            owner.name
        )
    };
    if let Ok(found) = fs::metadata(folder) {
        let uid = found.uid();
        return (uid != owner.uid).then(|| {
            refused(folder, format!("it belongs to user {uid}, not to user {}", owner.uid))
        });
    }
    let parent = folder.parent()?;
    let uid = fs::metadata(parent).ok()?.uid();
    let is_strange = ![0, ours, owner.uid].contains(&uid);
    is_strange.then(|| refused(parent, format!("it belongs to user {uid}")))
}
