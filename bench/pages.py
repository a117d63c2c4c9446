"""The document root that all servers share, and the cells: what is asked for and what must come back."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

HELLO = b"Hello, World!"  # 13 bytes, as file and as script.
KILOBYTE_LINE = b"x" * 1023 + b"\n"

HELLO_PHP = '<?php\necho "Hello, World!";\n'

# Written the way a page is made: in pieces, through PHP's output buffer.
MEGABYTE_PHP = """<?php
$line = str_repeat('x', 1023) . "\\n";
for ($i = 0; $i < 1024; $i++) {
    echo $line;
}
"""

# A few hundred microseconds of what applications do: arrays, strings, a regular expression, hashing, sorting, escaping.
WORK_PHP = """<?php
$rows = [];
for ($i = 0; $i < 260; $i++) {
    $rows[] = ['id' => $i, 'title' => "Entry number $i & more", 'key' => md5("entry-$i")];
}
usort($rows, fn ($a, $b) => strcmp($a['key'], $b['key']));
$list = '';
foreach ($rows as $row) {
    $slug = preg_replace('/[^a-z0-9]+/', '-', strtolower($row['title']));
    $list .= '<li id="' . $slug . '">' . htmlspecialchars($row['title']) . ' ' . substr($row['key'], 0, 8) . "</li>\\n";
}
echo '<ul>', "\\n", $list, '</ul>', "\\n", crc32($list), "\\n";
"""

# Asked once of every server before anything is measured: the same PHP with the same settings, or the run says so.
FACTS_PHP = """<?php
header('Content-Type: application/json');
$extensions = array_map('strtolower', get_loaded_extensions());
sort($extensions);
$status = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
$ini = [];
foreach (explode(',', $_GET['ini'] ?? '') as $key) {
    $ini[$key] = ini_get($key);
}
echo json_encode([
    'version' => PHP_VERSION,
    'sapi' => PHP_SAPI,
    'thread_safe' => (bool) PHP_ZTS,
    'opcache' => is_array($status) && $status['opcache_enabled'],
    'extensions' => $extensions,
    'ini' => $ini,
]);
"""


@dataclass
class Cell:
    """One question, put to every server."""

    name: str
    path: str
    kind: str  # "php" or "static"
    body: bytes | None = None  # None: taken from the first server's answer, the others must give the same.
    host: str | None = None  # The Host field, where a page depends on it.
    least_seconds: int = 1  # Of load: a slow page gives too few answers to count in less.
    fields: dict[str, str] = field(default_factory=dict)  # Further fields of the request.

    def all_fields(self) -> dict[str, str]:
        return {**({"Host": self.host} if self.host else {}), **self.fields}


def write_documents(root: Path) -> None:
    files = {
        "HelloWorld.php": HELLO_PHP.encode(),
        "1MB.php": MEGABYTE_PHP.encode(),
        "work.php": WORK_PHP.encode(),
        "facts.php": FACTS_PHP.encode(),
        "HelloWorld.txt": HELLO,
        "100KB.txt": KILOBYTE_LINE * 100,
        "1MB.txt": KILOBYTE_LINE * 1024,
    }
    for name, content in files.items():
        (root / name).write_bytes(content)


def cells(root: Path, php: str) -> list[Cell]:
    """All cells but WordPress, whose page exists only when its database does."""
    work = subprocess.run([php, "-n", str(root / "work.php")], check=True, stdout=subprocess.PIPE).stdout
    return [
        Cell("HelloWorld.php", "/HelloWorld.php", "php", HELLO),
        Cell("1MB.php", "/1MB.php", "php", KILOBYTE_LINE * 1024),
        Cell("work.php", "/work.php", "php", work),
        Cell("HelloWorld.txt", "/HelloWorld.txt", "static", HELLO),
        Cell("100KB.txt", "/100KB.txt", "static", KILOBYTE_LINE * 100),
        Cell("1MB.txt", "/1MB.txt", "static", KILOBYTE_LINE * 1024),
    ]


CELL_NAMES = ["HelloWorld.php", "1MB.php", "work.php", "HelloWorld.txt", "100KB.txt", "1MB.txt", "wordpress"]
