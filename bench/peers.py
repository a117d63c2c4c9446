"""The base of every peer, and the list of all."""

import re
import subprocess
from pathlib import Path

from processes import Program, accepts, free_port, wait_until
from settings import Settings, program


class Absent(Exception):
    """A peer cannot run here; the message says what is missing."""


class Peer:
    """One way of serving the document root. A subclass writes its configuration and names its programs."""

    name: str
    title: str
    serves_php = True
    unequal: str | None = None  # What cannot be made equal to the others, printed below the table.

    def __init__(self, settings: Settings):
        self.settings = settings
        self.port = free_port()
        self.programs: list[Program] = []
        self.folder: Path | None = None

    def require(self) -> None:
        """Raises Absent unless every program and module is installed."""
        raise NotImplementedError

    def launch(self) -> None:
        """Writes configurations below `self.folder` and starts the programs."""
        raise NotImplementedError

    def version(self) -> str:
        raise NotImplementedError

    def start(self) -> None:
        self.require()
        self.folder = self.settings.folder(self.name)
        try:
            self.launch()
            wait_until(self.name, self.programs, lambda: accepts(self.port))
        except BaseException:
            self.stop()
            raise

    def run(self, command: list[str], log: str, environment: dict[str, str] | None = None) -> Program:
        started = Program(command, self.folder / log, environment)
        self.programs.append(started)
        return started

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def roots(self) -> list[int]:
        return [started.pid for started in self.programs]

    def stop(self) -> None:
        for started in reversed(self.programs):
            started.stop()
        self.programs.clear()


def needed(*names: str) -> str:
    """The path of an installed program, or Absent."""
    found = program(*names)
    if not found:
        raise Absent(f"{names[0]} is not installed")
    return found


def first_line(command: list[str], pattern: str) -> str:
    """What `pattern` finds in a program's answer about its version."""
    output = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    match = re.search(pattern, output)
    return match.group(0) if match else output.strip().splitlines()[0]


def all_peers() -> list[type[Peer]]:
    """Every peer in the order in which a round visits them. Imported here because each of them imports this module."""
    from apache import EventFpm, EventFpmKeepAlive, PreforkModPhp, PreforkModPhpHtaccess, WorkerFcgid
    from h2o import H2o
    from howdah import Howdah
    from lighttpd import LighttpdFpm
    from nginx import NginxFpm, NginxFpmKeepAlive

    return [
        Howdah,
        NginxFpm,
        NginxFpmKeepAlive,
        PreforkModPhp,
        PreforkModPhpHtaccess,
        EventFpm,
        EventFpmKeepAlive,
        WorkerFcgid,
        LighttpdFpm,
        H2o,
    ]
