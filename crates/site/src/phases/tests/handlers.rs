//! Who serves a file: names, SetHandler, sections.

use super::check;
use super::tree::Tree;

const FILES: &str =
    "index.php a.txt x.html x.php5 x.phps up/evil.php up/pic.jpg run/page.html run/pic.jpg cgi/a.cgi";

#[test]
fn handlers_of_folders_and_sections() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "<Files x.html>\nSetHandler application/x-httpd-php\n</Files>\n<FilesMatch \"\\.php5$\">\nSetHandler php5-script\n</FilesMatch>\n",
            ),
            (
                "up/",
                "<FilesMatch \"\\.php$\">\nSetHandler none\n</FilesMatch>\n",
            ),
            (
                "run/",
                "SetHandler application/x-httpd-php\n<Files *.jpg>\nSetHandler default-handler\n</Files>\n",
            ),
            ("cgi/", "SetHandler cgi-script\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/x.html", "php x.html"),
            ("/x.html/info", "php x.html + /info"),
            ("/x.php5", "php x.php5"),
            ("/x.phps", "403"),
            // Apache would send its source.
            ("/up/evil.php", "403"),
            ("/up/pic.jpg", "file up/pic.jpg"),
            ("/run/page.html", "php run/page.html"),
            ("/run/pic.jpg", "file run/pic.jpg"),
            ("/cgi/a.cgi", "403"),
        ],
    );
}

#[test]
fn a_folders_handler_does_not_stand_before_the_names_of_scripts() {
    let mut tree = Tree::new(FILES, &[("up/", "SetHandler none\n")]);
    check(&mut tree, &[("/up/evil.php", "php up/evil.php")]);
}

#[test]
fn php_that_is_switched_off_is_not_sent_as_text() {
    let mut tree = Tree::new(
        FILES,
        &[("up/", "php_flag engine off\n"), ("", "php_flag engine on\n")],
    );
    check(
        &mut tree,
        &[
            ("/up/evil.php", "403"),
            ("/up/pic.jpg", "file up/pic.jpg"),
            ("/index.php", "php index.php"),
        ],
    );
}

#[test]
fn path_info_is_taken_as_the_folder_says() {
    let mut tree = Tree::new(
        FILES,
        &[
            ("", "AcceptPathInfo On\n"),
            ("up/", "AcceptPathInfo Off\n"),
            ("run/", "AcceptPathInfo Default\n"),
        ],
    );
    check(
        &mut tree,
        &[
            ("/a.txt/x", "file a.txt"),
            ("/index.php/x", "php index.php + /x"),
            ("/up/evil.php/x", "404"),
            ("/up/evil.php/", "404"),
            ("/run/page.html/x", "404"),
        ],
    );
}
