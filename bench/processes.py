"""Starting and ending servers, and what the kernel says of their processes."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 10  # After this a server that was asked to end is killed.


class StartFailed(Exception):
    """A server did not come up; the message carries the end of its log."""


class Program:
    """One started program with everything below it.

    It gets a session of its own: Apache and lighttpd signal their whole process group when they stop, which would
    otherwise be ours.
    """

    def __init__(self, command: list[str], log: Path, environment: dict[str, str] | None = None, cwd: Path | None = None):
        self.command = command
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        """SIGTERM to the root, and SIGKILL by pid to whatever of its tree is left."""
        below = with_start_times(pid for pid in tree([self.pid]) if pid != self.pid)
        if not self.has_ended():
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid, started in below:
            if start_time(pid) == started:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def with_start_times(pids) -> list[tuple[int, int]]:
    """The pids that run, each with its start time: later the pid alone may belong to somebody else."""
    return [(pid, started) for pid in pids if (started := start_time(pid)) is not None]


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat from the state on (field 3 of proc(5) is index 0 here)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(b")") + 2 :].split()


def start_time(pid: int) -> int | None:
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def tree(roots: list[int]) -> list[int]:
    """The roots and all their descendants that are alive."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := stat_fields(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found, waiting = [], list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def cpu_seconds(roots: list[int]) -> float:
    """User and system time of the trees so far, with that of children that have ended and were waited for."""
    ticks = 0
    for pid in tree(roots):
        if fields := stat_fields(pid):
            ticks += sum(int(field) for field in fields[11:15])  # utime, stime, cutime, cstime
    return ticks / TICKS_PER_SECOND


def processor_seconds(roots: list[int]) -> float:
    """What all threads of the trees have run so far, as the scheduler counts it: to the nanosecond, where /proc/PID/stat knows ticks."""
    nanoseconds = 0
    for pid in tree(roots):
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                nanoseconds += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return nanoseconds / 1e9


def pss_kib(roots: list[int]) -> int | None:
    """Proportional set size of the trees, or None where the kernel does not let us read it (needs the same user or root)."""
    total = 0
    for pid in tree(roots):
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            return None
        total += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what: str, programs: list[Program], ready, seconds: float = 20) -> None:
    """Asks `ready` until it says yes; a program that ends meanwhile, or too long a wait, is an error with its log."""
    deadline = time.monotonic() + seconds
    while not ready():
        for program in programs:
            if program.has_ended():
                raise StartFailed(f"{what} ended at start:\n{program.log_tail()}")
        if time.monotonic() > deadline:
            raise StartFailed(f"{what} was not ready in {seconds:.0f} s:\n" + "\n".join(p.log_tail() for p in programs))
        time.sleep(0.05)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def answers_on(path: Path) -> bool:
    """Whether something accepts on this unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
