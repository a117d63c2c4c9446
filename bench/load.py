"""wrk as the loader, and the checks of what servers answer."""

import http.client
import json
import os
import subprocess
import time
from dataclasses import dataclass

from pages import Cell

LOADER_BOUND_SHARE = 0.90  # A loader that used more than this of its core says nothing about how fast a server is.
HEAD_ROOM = 2048  # No server's response head is longer.

# Printed as one line that this module reads; without a `response` function wrk keeps its speed.
SUMMARY_SCRIPT = """
done = function(summary)
    local errors = summary.errors
    io.write(string.format(
        '\\nSUMMARY {"requests":%d,"microseconds":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\\n',
        summary.requests, summary.duration, summary.bytes,
        errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
"""


@dataclass
class Load:
    """What one run of wrk came to."""

    requests: int
    seconds: float
    bytes: int
    errors: dict[str, int]
    loader_share: float  # Of one core, for wrk's one thread.

    @property
    def per_second(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


class Wrong(Exception):
    """An answer or a whole run that is not what was asked for: it voids the round."""


def fetch(port: int, cell: Cell, connection: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
    own = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        own.request("GET", cell.path, headers=cell.all_fields())
        answer = own.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Wrong(f"no answer: {error!r}") from error
    finally:
        if connection is None:
            own.close()


def check_sample(port: int, cell: Cell, count: int) -> None:
    """Asks a few times over one connection; every status and every byte must be right."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for _ in range(count):
            status, body = fetch(port, cell, connection)
            if status != 200:
                raise Wrong(f"status {status}")
            if cell.body is not None and body != cell.body:
                raise Wrong(f"wrong body: {len(body)} bytes, {difference(body, cell.body)}")
    finally:
        connection.close()


def difference(body: bytes, expected: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(body, expected)) if a != b), min(len(body), len(expected)))
    return f"{len(expected)} expected, first difference at {at}: {body[at:at + 60]!r}"


def wrk_command(wrk: str, script: str, port: int, cell: Cell, connections: int, seconds: float) -> list[str]:
    """One thread: on a small machine more of them would only take cores from the server."""
    command = [wrk, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s", "-s", script]
    for name, value in cell.all_fields().items():
        command += ["-H", f"{name}: {value}"]
    return [*command, f"http://127.0.0.1:{port}{cell.path}"]


def run_wrk(wrk: str, script: str, port: int, cell: Cell, connections: int, seconds: float) -> Load:
    started = time.monotonic()
    process = subprocess.Popen(
        wrk_command(wrk, script, port, cell, connections, seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output = process.stdout.read().decode()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return read_summary(output, loader_share=(usage.ru_utime + usage.ru_stime) / (time.monotonic() - started))


def read_summary(output: str, loader_share: float) -> Load:
    """What the script above has written."""
    line = next((line for line in output.splitlines() if line.startswith("SUMMARY ")), None)
    if line is None:
        raise Wrong(f"wrk said: {output.strip()[-300:]}")
    summary = json.loads(line.removeprefix("SUMMARY "))
    return Load(
        requests=summary["requests"],
        seconds=summary["microseconds"] / 1e6,
        bytes=summary["bytes"],
        errors={kind: summary[kind] for kind in ("connect", "read", "write", "status", "timeout") if summary[kind]},
        loader_share=loader_share,
    )


def check_load(load: Load, cell: Cell, connections: int) -> None:
    """wrk's own error counts, and the bytes that arrived against the bytes that so many answers must have."""
    if load.errors:
        raise Wrong("errors: " + ", ".join(f"{count} {kind}" for kind, count in load.errors.items()))
    if load.requests == 0:
        raise Wrong("not one answer")
    if cell.body is not None:
        least = load.requests * len(cell.body)
        under_way = connections * (len(cell.body) + HEAD_ROOM)
        most = load.requests * (len(cell.body) + HEAD_ROOM + len(cell.body) // 64) + under_way
        if not least <= load.bytes <= most:
            raise Wrong(f"{load.bytes} bytes arrived for {load.requests} answers of {len(cell.body)}")
