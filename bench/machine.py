"""What a reader must know of the machine to understand a run."""

import os
import platform
import subprocess
from pathlib import Path


def notes() -> dict:
    return {
        "cpu": value_of("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": value_of("/proc/meminfo", "MemTotal"),
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": value_of("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "virtual": virtualisation(),
        "governor": text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "somaxconn": text_of("/proc/sys/net/core/somaxconn"),
        "open_files": os.sysconf("SC_OPEN_MAX"),
    }


def php_version(php: str) -> str:
    """The version of this command-line PHP that is part of the names of Debian's packages."""
    command = [php, "-n", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def is_busy() -> bool:
    """Whether somebody else uses the machine: figures taken then are worth little."""
    return os.getloadavg()[0] > 0.3 * len(os.sched_getaffinity(0))


def value_of(path: str, key: str, separator: str = ":") -> str:
    for line in text_of(path).splitlines():
        name, _, value = line.partition(separator)
        if name.strip() == key:
            return value.strip()
    return "unknown"


def text_of(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def virtualisation() -> str:
    try:
        return subprocess.run(["systemd-detect-virt"], stdout=subprocess.PIPE, text=True).stdout.strip() or "unknown"
    except FileNotFoundError:
        return "unknown"
