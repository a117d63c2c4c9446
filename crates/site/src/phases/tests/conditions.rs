//! `<If>`, and conditions of Require.

use super::check;
use super::tree::Tree;

const FILES: &str = "index.php a.txt secret.txt in/index.php in/a.txt";

#[test]
fn sections_come_behind_folders_and_conditions_behind_both() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "<If \"%{QUERY_STRING} == 'no'\">\nRequire all denied\n</If>\n<Files a.txt>\n\
                 Require all granted\n</Files>\n",
            ),
            // The section of the folder above precedes the directives of this folder outside of
            // sections.
            (
                "in/",
                "Require all denied\n<If \"%{QUERY_STRING} == 'yes'\">\nRequire all granted\n\
                 </If>\n",
            ),
        ],
    );
    check(
        &mut tree,
        &[
            ("/a.txt", "file a.txt"),
            ("/a.txt?no", "403"),
            ("/in/a.txt", "file in/a.txt"),
            ("/in/a.txt?no", "403"),
            ("/in/index.php", "403"),
            ("/in/index.php?yes", "php in/index.php"),
        ],
    );
}

#[test]
fn conditions_have_branches_and_nest() {
    let mut tree = Tree::new(
        FILES,
        &[(
            "",
            "<If \"%{QUERY_STRING} == '1'\">\nErrorDocument 404 one\n<If \"true\">\n\
             ErrorDocument 404 nested\n</If>\n</If>\n\
             <ElseIf \"%{QUERY_STRING} == '2'\">\nErrorDocument 404 two\n</ElseIf>\n<Else>\n\
             ErrorDocument 404 else\n</Else>\n",
        )],
    );
    check(
        &mut tree,
        &[
            ("/none?1", "404 page nested"),
            ("/none?2", "404 page two"),
            ("/none?3", "404 page else"),
            ("/none?1", "404 page nested"),
        ],
    );
}

#[test]
fn access_is_not_checked_again_under_the_same_rules() {
    let mut tree = Tree::new(
        FILES,
        &[
            (
                "",
                "RewriteEngine On\nRewriteRule ^go$ in/a.txt [L]\nRewriteRule ^own$ a.txt [L]\n\
                 RewriteRule ^sec$ secret.txt [L]\nRequire expr \"%{REQUEST_URI} in { '/own', \
                 '/go', '/sec' }\"\n<Files secret.txt>\nRequire all denied\n</Files>\n",
            ),
            ("in/", "Require all denied\n"),
        ],
    );
    check(&mut tree, &[("/own", "file a.txt"), ("/a.txt", "403"), ("/go", "403"), ("/sec", "403")]);
}

#[test]
fn conditions_ask_about_other_files_than_that_of_the_request() {
    let rules = "RewriteEngine On\nRewriteCond %{DOCUMENT_ROOT}/none -f [OR]\n\
                 RewriteCond %{DOCUMENT_ROOT}/none -d [OR]\n\
                 RewriteCond %{DOCUMENT_ROOT}/a.txt !-f [OR]\n\
                 RewriteCond %{DOCUMENT_ROOT}/in !-d\nRewriteRule ^ - [F]\n";
    let mut tree = Tree::new(FILES, &[("", rules)]);
    check(
        &mut tree,
        &[
            ("/a.txt", "file a.txt"),
            ("/in/", "php in/index.php"),
            ("/in/a.txt", "file in/a.txt"),
            ("/none", "404"),
        ],
    );
}
