"""php-fpm: the PHP side of nginx, lighttpd and Apache's event MPM."""

from pathlib import Path

from peers import Peer, first_line, needed
from processes import answers_on, wait_until
from settings import Settings, fill, lines_if

FPM_POOL = """[global]
daemonize = no
error_log = @folder@/fpm-error.log
; Restarts and time-outs are no part of a measurement.
log_level = error

[www]
listen = @socket@
; One place in the kernel's queue for every connection that may wait.
listen.backlog = 1024
@identity@
; A fixed set of children, the same number as every other server's PHP processes: no forking while measuring.
pm = static
pm.max_children = @children@
; Children live on; the recycling that some hosts add would only cost.
pm.max_requests = 0
; No access log is php-fpm's default; catching the workers' output would cost a pipe.
catch_workers_output = no
"""

FPM_IDENTITY = """user = www-data
group = www-data
listen.owner = www-data
listen.group = www-data"""


class FpmPool:
    """A php-fpm master with its children behind a unix socket, for whatever front."""

    def __init__(self, settings: Settings):
        self.settings = settings

    @property
    def binary(self) -> str:
        return needed(f"php-fpm{self.settings.php_version}", "php-fpm")

    def launch(self, peer: Peer, children: int) -> Path:
        socket = peer.folder / "fpm.sock"
        text = fill(
            FPM_POOL,
            folder=peer.folder,
            socket=socket,
            children=children,
            identity=lines_if(self.settings.user, FPM_IDENTITY),
        )
        pool = peer.write("fpm.conf", text)
        command = [self.binary, "-F", "-c", str(self.settings.ini_file), "-y", str(pool)]
        peer.run(command, "fpm.log")
        wait_until(f"{peer.name}: php-fpm", peer.programs, lambda: answers_on(socket))
        return socket

    def version(self) -> str:
        return first_line([self.binary, "-v"], r"PHP [0-9.]+")
