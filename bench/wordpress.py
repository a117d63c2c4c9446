"""Debian's WordPress below the document root, on a MariaDB of its own: one database and one set of files for all servers."""

import os
import shutil
import subprocess
from pathlib import Path

from pages import Cell
from peers import Absent, needed
from processes import Program, answers_on, wait_until
from settings import WORDPRESS_HOST, Settings

SOURCE = Path("/usr/share/wordpress")

CONFIGURATION = """<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', 'wordpress');
define('DB_HOST', 'localhost:@socket@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'http://@host@/wordpress');
define('WP_SITEURL', 'http://@host@/wordpress');
// Nothing but the page: no calls to ourselves, no updates from outside.
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_DEBUG', false);
foreach (['AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY'] as $name) {
    define($name, "bench $name");
    define(str_replace('KEY', 'SALT', $name), "bench salt of $name");
}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
"""

# A blog with something on its front page: ten posts with a few paragraphs and comments.
SET_UP = """<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = '@host@';
$_SERVER['REQUEST_URI'] = '/wordpress/';
require __DIR__ . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
add_filter('pre_wp_mail', '__return_true');
wp_install('Bench', 'bench', 'bench@example.org', true, '', 'a long pass phrase');
switch_theme('@theme@');
$words = explode(' ', 'the elephant walks slowly through the high grass and carries what it is given over the river to the far side');
for ($post = 1; $post <= 10; $post++) {
    $paragraphs = '';
    for ($paragraph = 0; $paragraph < 5; $paragraph++) {
        $sentence = '';
        for ($word = 0; $word < 60; $word++) {
            $sentence .= $words[($post * 7 + $paragraph * 13 + $word * $word) % count($words)] . ' ';
        }
        $paragraphs .= "<!-- wp:paragraph --><p>$sentence</p><!-- /wp:paragraph -->\\n";
    }
    $id = wp_insert_post([
        'post_title' => "Post number $post",
        'post_content' => $paragraphs,
        'post_status' => 'publish',
        'post_author' => 1,
        'post_date' => "2024-01-0" . ($post % 9 + 1) . " 10:00:00",
    ]);
    for ($comment = 0; $comment < 3; $comment++) {
        wp_insert_comment([
            'comment_post_ID' => $id,
            'comment_author' => "Reader $comment",
            'comment_author_email' => 'reader@example.org',
            'comment_content' => 'I have seen it too.',
            'comment_approved' => 1,
        ]);
    }
}
echo 'installed';
"""


class WordPress:
    """The database server and the files; starts once for a run."""

    def __init__(self, settings: Settings, php: str):
        self.settings = settings
        self.php = php
        self.database: Program | None = None

    def start(self) -> Cell:
        if not (SOURCE / "wp-load.php").exists():
            raise Absent("the package wordpress is not installed")
        themes = sorted(path.name for path in (SOURCE / "wp-content" / "themes").iterdir() if path.is_dir())
        if not themes:
            raise Absent("no WordPress theme is installed")
        socket = self.start_database()
        self.install(socket, themes[-1])
        # The body is whatever the first server answers; the others must answer the same bytes.
        return Cell("wordpress", "/wordpress/", "php", None, WORDPRESS_HOST, least_seconds=5)

    def start_database(self) -> Path:
        server, install, client = needed("mariadbd"), needed("mariadb-install-db"), needed("mariadb")
        folder = self.settings.folder("mariadb")
        socket = folder / "mariadb.sock"
        account = "mysql" if os.geteuid() == 0 else self.settings.account
        if os.geteuid() == 0:
            shutil.chown(folder, "mysql", "mysql")
        data = folder / "data"
        subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                f"--user={account}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.database = Program(
            [
                server,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={socket}",
                f"--pid-file={folder / 'mariadb.pid'}",
                f"--user={account}",
                "--skip-networking",
                # Every PHP process of every server may hold a connection.
                "--max-connections=1000",
                "--innodb-buffer-pool-size=256M",
            ],
            folder / "mariadb.log",
        )
        wait_until("mariadbd", [self.database], lambda: answers_on(socket), 60)
        statements = (
            "CREATE DATABASE wordpress CHARACTER SET utf8mb4;"
            "CREATE USER wordpress@localhost IDENTIFIED BY 'wordpress';"
            "GRANT ALL ON wordpress.* TO wordpress@localhost;"
        )
        subprocess.run([client, "--no-defaults", "-u", "root", "-S", str(socket), "-e", statements], check=True)
        return socket

    def install(self, socket: Path, theme: str) -> None:
        target = self.settings.root / "wordpress"
        # Debian links parts of it to other packages; copied as files, no server has to follow links.
        shutil.copytree(SOURCE, target, symlinks=False, ignore_dangling_symlinks=True)
        values = {"@socket@": str(socket), "@host@": WORDPRESS_HOST, "@theme@": theme}
        (target / "wp-config.php").write_text(replaced(CONFIGURATION, values))
        set_up = target / "bench-set-up.php"
        set_up.write_text(replaced(SET_UP, values))
        answer = subprocess.run([self.php, str(set_up)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not answer.stdout.endswith("installed"):
            raise Absent(f"WordPress could not be installed: {answer.stdout[-500:]}")
        set_up.unlink()

    def stop(self) -> None:
        if self.database:
            self.database.stop()


def replaced(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
