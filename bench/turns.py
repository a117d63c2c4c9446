"""Loads that take turns on one server: each of them for a tenth of a second, then the next, again and again.

What disturbs a shared machine lasts longer than that, so it disturbs all of them alike. A load that has no turn is stopped."""

import random
import signal
import subprocess
import time

from load import Wrong, check_load, check_sample, read_summary, wrk_command
from measure import SAMPLE_COUNT, Loader, Round
from pages import Cell
from peers import Peer
from processes import processor_seconds

TURN_SECONDS = 0.1
IDLE_SECONDS = 0.01  # A server that does nothing for so long has finished with what a stopped load has asked for.
IDLE_SHARE = 0.1  # Of one core: no more than that is nothing.


class PausedLoad:
    """One load: a wrk that runs only while it has its turn."""

    def __init__(self, cell: Cell, peer: Peer, loader: Loader, seconds: float):
        self.cell, self.peer, self.loader = cell, peer, loader
        self.seconds = self.cpu_seconds = 0.0
        self.command = wrk_command(loader.wrk, loader.script, peer.port, cell, loader.connections, seconds)
        self.process: subprocess.Popen | None = None

    def run(self) -> None:
        """One turn."""
        began, spent = time.monotonic(), processor_seconds(self.peer.roots())
        if self.process:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(TURN_SECONDS)
        self.process.send_signal(signal.SIGSTOP)
        ended, in_all = time.monotonic(), processor_seconds(self.peer.roots())
        while True:
            time.sleep(IDLE_SECONDS)
            before, in_all = in_all, processor_seconds(self.peer.roots())
            if in_all - before < IDLE_SECONDS * IDLE_SHARE:
                break
            ended = time.monotonic()
        self.seconds += ended - began
        self.cpu_seconds += in_all - spent

    def end(self) -> Round:
        """The last turn, to the end of the load."""
        began, spent = time.monotonic(), processor_seconds(self.peer.roots())
        self.process.send_signal(signal.SIGCONT)
        output, _ = self.process.communicate()
        self.seconds += time.monotonic() - began
        self.cpu_seconds += processor_seconds(self.peer.roots()) - spent
        result = Round(seconds=self.seconds)
        try:
            load = read_summary(output.decode(), loader_share=0.0)
            result.requests, result.bytes = load.requests, load.bytes
            check_load(load, self.cell, self.loader.connections)
            result.per_second = load.requests / self.seconds
            result.cpu_microseconds = self.cpu_seconds * 1e6 / load.requests
            check_sample(self.peer.port, self.cell, SAMPLE_COUNT)
        except Wrong as wrong:
            result.void = str(wrong)
        return result

    def kill(self) -> None:
        """Ends a load whose end nobody waited for."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def measure_in_turns(cells: list[Cell], peer: Peer, loader: Loader) -> list[Round]:
    """Asks all cells' questions, each for `loader.seconds` in all; one round of each."""
    total = loader.seconds * len(cells)
    loads = [PausedLoad(cell, peer, loader, total) for cell in cells]
    try:
        deadline = time.monotonic() + total
        while time.monotonic() < deadline:
            random.shuffle(loads)  # So that nobody always comes after the same one.
            for load in loads:
                load.run()
        rounds = {id(load.cell): load.end() for load in loads}
        return [rounds[id(cell)] for cell in cells]
    finally:
        for load in loads:
            load.kill()
