"""The rounds: every peer in turn, again and again, so that whatever disturbs the machine disturbs all."""

import threading
import time
from dataclasses import asdict, dataclass, field

from load import LOADER_BOUND_SHARE, Wrong, check_load, check_sample, fetch, run_wrk
from pages import Cell
from peers import Peer
from processes import cpu_seconds, pss_kib

SAMPLE_COUNT = 3  # Answers checked byte for byte before and after each run.
SETTLE_SECONDS = 0.2  # For a server to finish with the connections that the loader has left.


@dataclass
class Loader:
    """How hard to ask."""

    wrk: str
    script: str
    connections: int
    seconds: float
    warm_up_seconds: float


@dataclass
class Round:
    """One peer in one round of one cell."""

    per_second: float = 0.0
    cpu_microseconds: float = 0.0  # User and system time of the server's processes, per request.
    requests: int = 0
    seconds: float = 0.0
    bytes: int = 0
    loader_share: float = 0.0
    loader_bound: bool = False
    void: str | None = None  # Why this round does not count.


@dataclass
class PeerCell:
    """One peer in one cell."""

    rounds: list[Round] = field(default_factory=list)
    pss_kib_under_load: int | None = None
    failure: str | None = None  # Why it was not measured at all.

    def to_json(self) -> dict:
        return asdict(self)


def measure_cell(cell: Cell, peers: list[Peer], loader: Loader, rounds: int, say) -> dict[str, PeerCell]:
    taking_part = [peer for peer in peers if peer.serves_php or cell.kind == "static"]
    if cell.body is None:
        cell.body = agreed_body(cell, taking_part[0])
    results = {peer.name: PeerCell() for peer in taking_part}
    for peer in taking_part:
        warm_up(cell, peer, loader, results[peer.name])
        if results[peer.name].failure:
            say(f"{cell.name}: {peer.name}: {results[peer.name].failure}")
    ready = [peer for peer in taking_part if results[peer.name].failure is None]
    for number in range(1, rounds + 1):
        for peer in ready:
            result = measure_round(cell, peer, loader)
            results[peer.name].rounds.append(result)
            say(describe(cell, number, peer, result))
    return results


def agreed_body(cell: Cell, peer: Peer) -> bytes:
    """The answer that all others must match, from the second request on: the first may fill caches."""
    fetch(peer.port, cell)
    status, body = fetch(peer.port, cell)
    if status != 200 or not body:
        raise Wrong(f"{cell.name}: {peer.name} answers {status} with {len(body)} bytes")
    return body


def warm_up(cell: Cell, peer: Peer, loader: Loader, result: PeerCell) -> None:
    """Loads code into opcaches and starts what a server starts late; memory is read meanwhile, off the record."""

    def read_memory():
        result.pss_kib_under_load = pss_kib(peer.roots())

    seconds = max(loader.warm_up_seconds, cell.least_seconds)
    reader = threading.Timer(seconds * 0.7, read_memory)
    try:
        check_sample(peer.port, cell, SAMPLE_COUNT)
        reader.start()
        load = run_wrk(loader.wrk, loader.script, peer.port, cell, loader.connections, seconds)
        check_sample(peer.port, cell, SAMPLE_COUNT)
        if load.requests == 0:
            raise Wrong("not one answer under load")
    except Wrong as wrong:
        result.failure = str(wrong)
    finally:
        reader.cancel()
        if reader.ident is not None:
            reader.join()


def measure_round(cell: Cell, peer: Peer, loader: Loader) -> Round:
    result = Round()
    try:
        check_sample(peer.port, cell, SAMPLE_COUNT)
        before = cpu_seconds(peer.roots())
        seconds = max(loader.seconds, cell.least_seconds)
        load = run_wrk(loader.wrk, loader.script, peer.port, cell, loader.connections, seconds)
        time.sleep(SETTLE_SECONDS)
        used = cpu_seconds(peer.roots()) - before
        result.requests, result.seconds, result.bytes = load.requests, load.seconds, load.bytes
        result.per_second = load.per_second
        result.cpu_microseconds = used * 1e6 / load.requests if load.requests else 0.0
        result.loader_share = load.loader_share
        result.loader_bound = load.loader_share > LOADER_BOUND_SHARE
        check_load(load, cell, loader.connections)
        check_sample(peer.port, cell, SAMPLE_COUNT)
    except Wrong as wrong:
        result.void = str(wrong)
    return result


def describe(cell: Cell, number: int, peer: Peer, result: Round) -> str:
    if result.void:
        return f"{cell.name}: round {number}: {peer.name}: VOID: {result.void}"
    bound = ", loader-bound" if result.loader_bound else ""
    return (
        f"{cell.name}: round {number}: {peer.name}: {result.per_second:,.0f}/s, "
        f"{result.cpu_microseconds:,.1f} µs of CPU each, loader {result.loader_share:.0%}{bound}"
    )
