//! Back-ups of PHP programs, recognised by their names. A server that does not run them sends their
//! source, and with it the passwords in it.
//!
//! ```text
//! x.php~  x.php.~1~  #x.php#  .x.php.swp  x.php.un~     Emacs, vim, nano, GNU cp
//! x.php.bak  x.php_old  x.phpsave  x.php-2.copy         people, and nano's x.php.save.1
//! x.php.orig  x.php.rej  x.php.mine  x.php.r12          patch, git, Subversion
//! x.php,v  x.php,t  x.php.svn-base                      RCS, Subversion
//! x.php.dpkg-old  x.php.ucf-dist  x.php.rpmsave         package managers
//! x.php.suspected  x.php.disabled  x.php.filepart       hosts, plugins, transfers
//! x.php.1  x.php.v2  x.php-2026-11-22  x.php.txt        numbers, dates, renamed to be seen
//! x.php.gz  x.phar.zip  x.php.bak.tar.gz                packed
//! x.inc                                                 the old ending of included files
//! ```
//!
//! `x.php.html` (a report about x.php), `x.php.png` and `x.php.js` are none.

/// Returns whether a file of that name is a back-up of a PHP program, or an `.inc` file.
#[inline]
pub(super) fn is_backup(name: &[u8]) -> bool {
    memchr::memchr_iter(b'.', name).any(|dot| is_backup_at(name, dot))
}

/// Returns whether a PHP program's ending begins at the dot, and only marks of back-ups follow.
#[inline]
fn is_backup_at(name: &[u8], dot: usize) -> bool {
    let rest = &name[dot + 1..];
    let Some(begin) = rest.first_chunk::<2>() else {
        return false;
    };
    let begin = begin.map(|byte| byte | 0x20);
    (begin == PHP || begin == INC) && is_marked(rest)
}

#[cold]
fn is_marked(rest: &[u8]) -> bool {
    let rest = rest.to_ascii_lowercase();
    if rest == INCLUDED {
        return true;
    }
    ENDINGS.iter().any(|ending| {
        rest.strip_prefix(*ending)
            .is_some_and(|marks| !marks.is_empty() && are_marks(marks))
    })
}

/// Returns whether the bytes are marks of back-ups, one after the other: words, numbers, and what
/// parts them.
fn are_marks(mut rest: &[u8]) -> bool {
    // A version's digit, as in `.php5`, is no mark: `x.php5` is the program itself.
    if rest.iter().all(u8::is_ascii_digit) && rest.len() == 1 {
        return false;
    }
    let mut is_after_comma = false;
    while let Some(first) = rest.first() {
        let length = match first {
            byte if SEPARATORS.contains(byte) => 1,
            b'0'..=b'9' => run(rest, u8::is_ascii_digit),
            _ => {
                let word = run(rest, u8::is_ascii_alphabetic);
                let is_mark = match &rest[..word] {
                    b"v" | b"t" if is_after_comma => true,
                    b"v" => rest.get(word).is_some_and(u8::is_ascii_digit),
                    other => WORDS.binary_search(&other).is_ok(),
                };
                if !is_mark {
                    return false;
                }
                word
            }
        };
        is_after_comma = *first == b',';
        rest = &rest[length..];
    }
    true
}

fn run(bytes: &[u8], is_part: fn(&u8) -> bool) -> usize {
    bytes.iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len())
}

/// The first two letters of [`ENDINGS`].
pub(super) const PHP: [u8; 2] = *b"ph";
pub(super) const INC: [u8; 2] = *b"in";

/// The ending of files that PHP programs include.
const INCLUDED: &[u8] = b"inc";

/// The endings of PHP programs.
const ENDINGS: [&[u8]; 6] = [b"php", b"phtml", b"phar", b"phps", b"pht", INCLUDED];

/// Bytes between the parts of a back-up's name.
const SEPARATORS: &[u8] = b".~_- #()+,@%$;!=^&'[]{}";

/// The words in the names of back-ups, sorted.
#[rustfmt::skip]
const WORDS: &[&[u8]] = &[
    b"alt", b"archive", b"autosave", b"bac", b"back", b"backup", b"bad", b"bak", b"base", b"bck",
    b"bk", b"bkp", b"bkup", b"br", b"broken", b"bu", b"bz", b"conflict", b"copia", b"copie",
    b"copy", b"deactivated", b"default", b"deleted", b"dev", b"diff", b"disable", b"disabled",
    b"dist", b"dpkg", b"example", b"filepart", b"gz", b"hacked", b"hold", b"inactive", b"infected",
    b"jb", b"kate", b"kopia", b"kopie", b"live", b"local", b"lz", b"lzma", b"lzo", b"master",
    b"mine", b"neu", b"new", b"off", b"old", b"org", b"orig", b"original", b"other", b"ours",
    b"pacnew", b"pacsave", b"part", b"patch", b"prev", b"previous", b"prod", b"production", b"r",
    b"rar", b"rej", b"remote", b"removed", b"rpmnew", b"rpmorig", b"rpmsave", b"sample", b"sav",
    b"save", b"saved", b"sik", b"source", b"src", b"stage", b"staging", b"suspected", b"svn",
    b"swm", b"swn", b"swo", b"swp", b"swpx", b"swx", b"tar", b"tbz", b"temp", b"template", b"test",
    b"text", b"tgz", b"theirs", b"this", b"tlz", b"tmp", b"tpl", b"txt", b"txz", b"ucf", b"un",
    b"unused", b"working", b"wp", b"xz", b"z", b"zip", b"zst",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that editors, package managers and people give to copies of scripts.
    #[rustfmt::skip]
    const BACKUPS: &[&str] = &[
        "x.php.org", "x.php.hold", "x.php.master", "x.php.src", "x.php.text", "x.php.patch",
        "x.php.diff", "x.php.wp-backup",
        "x.php~", "x.php.~1~", "x.php~1~", "#x.php#", ".x.php.swp", "x.php.swo", ".x.php.un~",
        ".x.php.kate-swp", "x.php___jb_tmp___", "x.php.bak", "x.php.BAK", "X.PHP.Bak", "x.php.bak2",
        "x.php_bak", "x.php-bak", "x.phpbak", "x.php.old", "x.php_old_1", "x.php.save",
        "x.php.save.1", "x.php.orig", "x.php.rej", "x.php.mine", "x.php.r12", "x.php.dpkg-old",
        "x.php.dpkg-dist", "x.php.ucf-new", "x.php.rpmsave", "x.php.pacnew", "x.php.suspected",
        "x.php.disabled", "x.php.filepart", "x.php.1", "x.php.12", "x.php-2026-11-22",
        "x.php.20261122", "x.php (2)", "x.php - copy", "x.php.txt", "x.php.gz", "x.phar.gz",
        "x.php.tar.gz", "x.php.bz2", "x.php.7z", "x.php.zip", "x.php5.bak", "x.phtml~", "x.pht.old",
        "x.phps.gz", "x.inc", "x.INC", "x.inc.bak", "x.class.php.bak", "a.php.b.php.bak",
        "wp-config.php.sample", "x.php,v", "x.php,t", "x.inc,v", "x.php,v~", "x.php.1,v",
        "x.php.v2", "x.php-v1.2", "x.php.svn-base", "x.php.prod", "x.php.live", "x.php.alt",
        "x.php.sik", "x.php.bac", "x.php.tpl", "x.php.autosave", "x.php$", "x.php%", "x.php;1",
        "x.php.br",
    ];

    /// Names that are no copies of scripts.
    #[rustfmt::skip]
    const OTHERS: &[&str] = &[
        "x.php", "x.php5", "x.phtml", "x.php.html", "x.php.png", "x.php.js", "x.php.css",
        "x.php.json", "x.phpx", "x.phpt", "x.phar.asc", "x.phar.sha256", "x.bak", "x.txt", "x.gz",
        "x.inch", "x.ini", "x.info", "photo.phone", "php", "php.txt", "xphp.bak", "x.ph", "x.", "",
        ".", "~", "x.phpv", "x.php.vtt", "x.php,vx", "x.php.t", "x.txt,v", "x.include",
        "x.inc.css", "old.html", "x.php.bakery",
    ];

    #[test]
    fn names_of_backups() {
        for name in BACKUPS {
            assert!(is_backup(name.as_bytes()), "{name}");
            assert!(super::super::has_begin_of_source(name.as_bytes()), "{name}");
        }
        for name in OTHERS {
            assert!(!is_backup(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.is_sorted());
    }
}
