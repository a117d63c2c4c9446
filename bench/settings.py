"""What every peer is given alike: folders, processes, PHP's settings."""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

# One php.ini for all. Extensions come from each SAPI's own conf.d, which Debian keeps alike; the facts page proves it.
PHP_INI = {
    "memory_limit": "128M",
    "output_buffering": "4096",  # Debian's production value.
    "max_execution_time": "30",
    "variables_order": "GPCS",
    "request_order": "GP",
    "expose_php": "0",
    "display_errors": "0",
    "log_errors": "1",
    "zend.assertions": "-1",
    "enable_dl": "0",
    "realpath_cache_size": "4096K",  # PHP's own default, written down.
    "realpath_cache_ttl": "120",
    "opcache.enable": "1",
    "opcache.memory_consumption": "128",
    "opcache.interned_strings_buffer": "16",
    "opcache.max_accelerated_files": "10000",
    "opcache.validate_timestamps": "1",  # What a host runs: an edited file is seen …
    "opcache.revalidate_freq": "2",  # … two seconds later at most.
    "opcache.jit": "0",
}


# Sent as Host to every server for WordPress, so that links, and with them the bytes, are the same.
WORDPRESS_HOST = "wordpress.test"


@dataclass
class Settings:
    """Shared by all peers of one run."""

    scratch: Path
    root: Path  # The document root.
    php_version: str  # "8.2": part of the names of Debian's programs and modules.
    php_processes: int
    connections: int
    cores: int
    howdah: Path
    keep_alive_pool: int = 0

    def __post_init__(self):
        # php-fpm pins a child to each open upstream connection, used or idle. Every nginx worker keeps up to
        # `connections` idle ones, so only a pool this large can never starve one worker by what another holds.
        self.keep_alive_pool = self.connections * self.cores

    @property
    def user(self) -> str | None:
        """The account for servers' workers: as root they must not stay root; otherwise they are ours."""
        return "www-data" if os.geteuid() == 0 else None

    @property
    def account(self) -> str:
        return self.user or pwd.getpwuid(os.geteuid()).pw_name

    @property
    def ini_file(self) -> Path:
        return self.scratch / "php.ini"

    def folder(self, name: str) -> Path:
        """A private folder for one peer, writable for the account its workers run as."""
        path = self.scratch / name
        path.mkdir()
        self.give(path)
        return path

    def give(self, path: Path) -> None:
        if self.user:
            shutil.chown(path, self.user, pwd.getpwnam(self.user).pw_gid)

    def write_ini(self) -> None:
        self.ini_file.write_text("".join(f'{key} = "{value}"\n' for key, value in PHP_INI.items()))


def fill(template: str, **values) -> str:
    """Puts values for @name@ into a configuration; `$` and braces mean something in most of them already."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", str(value))
    return template


def lines_if(condition, text: str) -> str:
    return text if condition else ""


def program(*names: str) -> str | None:
    """Where the first of these programs is, looking where servers live as well."""
    places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    return next((found for name in names if (found := shutil.which(name, path=places))), None)
