//! Finds PHP, compiles the shim against its headers and links its library.
//!
//! `HOWDAH_PHP_CONFIG` names the `php-config` to ask; otherwise the newest supported one on the
//! path is taken. Without PHP the crate still builds, with `cfg(no_php)`, and its binary
//! says what is missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that are asked, in this order, when the environment names none.
const PHP_CONFIGS: [&str; 4] = ["php-config8.4", "php-config8.3", "php-config8.2", "php-config"];

/// The shim.
const SOURCES: [&str; 3] = ["shim/shim.c", "shim/ini.c", "shim/functions.c"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_php)");
    println!("cargo::rerun-if-env-changed=HOWDAH_PHP_CONFIG");
    let headers =
        ["shim.h", "shim_internal.h", "shim_versions.h", "functions_arginfo.h", "sapi_ini.h"]
            .map(|name| format!("shim/{name}"));
    for file in ["build.rs"]
        .into_iter()
        .chain(SOURCES)
        .chain(headers.iter().map(String::as_str))
    {
        println!("cargo::rerun-if-changed={file}");
    }
    match Php::find() {
        Ok(php) => php.build(),
        Err(missing) => {
            println!("cargo::rustc-cfg=no_php");
            println!("cargo::rustc-env=HOWDAH_PHP_MISSING={missing}");
            println!("cargo::warning=howdah-php is built without PHP: {missing}");
        }
    }
}

/// A PHP whose headers and library are both here.
struct Php {
    includes: String,
    library: PathBuf,
}

impl Php {
    fn find() -> Result<Php, String> {
        let named = env::var("HOWDAH_PHP_CONFIG").ok();
        let mut why = String::from("no php-config found (Debian: php-dev, libphp-embed)");
        for tool in PHP_CONFIGS.iter().copied().filter(|_| named.is_none()).chain(named.as_deref())
        {
            match Php::ask(tool) {
                Ok(Some(php)) => return Ok(php),
                Ok(None) => {}
                Err(problem) => why = problem,
            }
        }
        Err(why)
    }

    /// `None`: there is no such tool.
    fn ask(tool: &str) -> Result<Option<Php>, String> {
        let Some(version) = answer(tool, "--version") else {
            return Ok(None);
        };
        let parts: Vec<&str> = version.split('.').collect();
        let [major, minor, ..] = parts[..] else {
            return Err(format!("{tool} gives no version: {version:?}"));
        };
        let includes = answer(tool, "--includes").unwrap_or_default();
        let header = includes.split_whitespace().filter_map(|flag| flag.strip_prefix("-I"));
        if !header.clone().any(|folder| {
            Path::new(folder).join("main/SAPI.h").exists()
                || Path::new(folder).join("SAPI.h").exists()
        }) {
            return Err(format!(
                "PHP {version} is here, its headers are not (Debian: php{major}.{minor}-dev)"
            ));
        }
        let prefix = answer(tool, "--prefix").unwrap_or_else(|| "/usr".to_owned());
        let folders = [
            format!("{prefix}/lib"),
            format!("{prefix}/lib64"),
            format!("{prefix}/lib/{}-linux-gnu", env::consts::ARCH),
        ];
        // Debian names the library after the version; `make install` of PHP itself does not.
        let names = [format!("libphp{major}.{minor}.so"), "libphp.so".to_owned()];
        let library = names
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| Path::new(folder).join(name)))
            .find(|library| library.exists())
            .ok_or_else(|| {
                format!(
                    "PHP {version} is here, its library is not (Debian: \
                     libphp{major}.{minor}-embed)"
                )
            })?;
        Ok(Some(Php { includes, library }))
    }

    fn build(&self) {
        let mut shim = cc::Build::new();
        shim.files(SOURCES).std("gnu11").warnings(true).extra_warnings(true);
        shim.flag("-Werror=implicit-function-declaration");
        // PHP's macros and callback types leave parameters unused.
        shim.flag("-Wno-unused-parameter").flag("-fno-strict-aliasing");
        for folder in self.includes.split_whitespace().filter_map(|flag| flag.strip_prefix("-I")) {
            shim.flag("-isystem").flag(folder);
        }
        shim.compile("howdah_shim");

        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        let name = self.library.file_name().expect("found by name");
        let mut bytes = fs::read(&self.library).expect("the library exists");
        forget_soname(&mut bytes);
        fs::write(out.join(name), bytes).expect("OUT_DIR is writable");
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-arg-bins=-l:{}", name.display());
        let folder = self.library.parent().expect("found in a folder").display();
        if !["/usr/lib", "/lib"].contains(&folder.to_string().as_str()) {
            println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{folder}");
        }
    }
}

fn answer(tool: &str, question: &str) -> Option<String> {
    let output = Command::new(tool).arg(question).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Takes the SONAME out of a copy of libphp that only the linker sees.
///
/// Every version's SONAME is `libphp.so`, so with two versions installed the loader would take
/// either. Without one, the binary asks for the file by its own name, `libphp8.2.so`. (64-bit ELF
/// of the build machine's byte order; anything else is left as it is.)
fn forget_soname(elf: &mut [u8]) {
    const PROGRAM_HEADERS: usize = 32;
    const DYNAMIC_SEGMENT: u64 = 2;
    const SONAME: u64 = 14;
    const DEBUG: u64 = 21; // Ignored in a library.
    if elf.get(..5) != Some(b"\x7fELF\x02") {
        return;
    }
    let word = |elf: &[u8], at: usize, bytes: usize| -> u64 {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&elf[at..at + bytes]);
        u64::from_le_bytes(word)
    };
    let headers = word(elf, PROGRAM_HEADERS, 8) as usize;
    let size = word(elf, 54, 2) as usize;
    for header in (0..word(elf, 56, 2) as usize).map(|index| headers + index * size) {
        if word(elf, header, 4) != DYNAMIC_SEGMENT {
            continue;
        }
        let start = word(elf, header + 8, 8) as usize;
        let length = word(elf, header + 32, 8) as usize;
        for entry in (start..start + length).step_by(16) {
            if word(elf, entry, 8) == SONAME {
                elf[entry..entry + 8].copy_from_slice(&DEBUG.to_le_bytes());
            }
        }
    }
}
