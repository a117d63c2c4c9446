"""From rounds to ratios, to a table in Markdown and to the files of a run."""

import json
from pathlib import Path
from statistics import median

# What Howdah means to reach: cell, against whom ("best" is the best of all others in that round), requests per second.
TARGETS = [
    ("HelloWorld.php", "apache-mod_php", 2.5),
    ("HelloWorld.php", "nginx-fpm", 4.0),
    ("1MB.php", "apache-mod_php", 1.3),
    ("1MB.php", "nginx-fpm", 4.0),
    ("wordpress", "best", 1.10),
    ("HelloWorld.txt", "best", 1.25),
    ("100KB.txt", "best", 1.05),
    ("1MB.txt", "best", 1.05),
]


def valid(rounds: list[dict]) -> list[dict]:
    return [one for one in rounds if one["void"] is None]


def round_ratios(cell: dict, base: str, other: str, figure: str) -> list[float]:
    """Round by round, how many times better `base` is than `other`; rounds that are void for either do not count."""
    ratios = []
    if base not in cell or other not in cell:
        return ratios
    for ours, theirs in zip(cell[base]["rounds"], cell[other]["rounds"]):
        if ours["void"] is None and theirs["void"] is None and ours[figure] and theirs[figure]:
            # More requests are better, less CPU is better.
            ratios.append(ours[figure] / theirs[figure] if figure == "per_second" else theirs[figure] / ours[figure])
    return ratios


def ratios_to_best(cell: dict, base: str, figure: str) -> list[float]:
    """Round by round against whichever other server was the best in that round."""
    by_round: dict[int, list[float]] = {}
    for other in cell:
        if other == base or base not in cell:
            continue
        for number, (ours, theirs) in enumerate(zip(cell[base]["rounds"], cell[other]["rounds"])):
            if ours["void"] is None and theirs["void"] is None and ours[figure] and theirs[figure]:
                ratio = ours[figure] / theirs[figure] if figure == "per_second" else theirs[figure] / ours[figure]
                by_round.setdefault(number, []).append(ratio)
    return [min(ratios) for ratios in by_round.values()]


def table(run: dict) -> str:
    """One table per cell, the targets, and what a reader must know to judge them."""
    base = run["base"]
    lines = ["# A run of the bench", "", *settings_lines(run), ""]
    for name, cell in run["cells"].items():
        lines += [f"## {name}", "", *cell_lines(run, cell, base), ""]
    if any(base == "howdah" and base in cell for cell in run["cells"].values()):
        lines += ["## Against what Howdah means to reach", "", *target_lines(run, base), ""]
    lines += ["## Memory", "", *memory_lines(run), ""]
    lines += ["## To know", "", *note_lines(run), ""]
    return "\n".join(lines)


def settings_lines(run: dict) -> list[str]:
    machine, settings = run["machine"], run["settings"]
    return [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}, {machine['distribution']}; "
        f"load average before: {machine['load_average']}.",
        f"wrk with one thread and {settings['connections']} connections on the same machine, "
        f"{settings['rounds']} rounds of {settings['seconds']} s, interleaved; "
        f"{settings['php_processes']} PHP processes each, opcache on, logs off.",
        f"Ratios are medians of the per-round ratios of {base_title(run)} to the server in the row: above 1, {base_title(run)} is better.",
    ]


def base_title(run: dict) -> str:
    return run["peers"][run["base"]]["title"]


def cell_lines(run: dict, cell: dict, base: str) -> list[str]:
    lines = [
        "| server | requests/s | ratio | CPU µs/request | ratio | loader | PSS under load |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, result in cell.items():
        title = run["peers"][name]["title"] + (" ¹" if run["peers"][name]["unequal"] else "")
        rounds = valid(result["rounds"])
        if not rounds:
            why = result["failure"] or "every round void"
            lines.append(f"| {title} | not measured: {one_line(why)} | | | | | |")
            continue
        share = median(one["loader_share"] for one in rounds)
        bound = " bound" if sum(one["loader_bound"] for one in rounds) * 2 > len(rounds) else ""
        void = len(result["rounds"]) - len(rounds)
        lines.append(
            f"| {title}{f' ({void} void)' if void else ''} "
            f"| {median(one['per_second'] for one in rounds):,.0f} "
            f"| {ratio_text(round_ratios(cell, base, name, 'per_second'), name == base)} "
            f"| {median(one['cpu_microseconds'] for one in rounds):,.1f} "
            f"| {ratio_text(round_ratios(cell, base, name, 'cpu_microseconds'), name == base)} "
            f"| {share:.0%}{bound} "
            f"| {memory_text(result['pss_kib_under_load'])} |"
        )
    return lines


def target_lines(run: dict, base: str) -> list[str]:
    lines = ["| cell | against | to reach | requests/s | CPU | |", "|---|---|---:|---:|---:|---|"]
    for cell_name, against, target in TARGETS:
        cell = run["cells"].get(cell_name)
        if cell is None:
            continue
        figures = []
        for figure in ("per_second", "cpu_microseconds"):
            best = against == "best"
            figures.append(ratios_to_best(cell, base, figure) if best else round_ratios(cell, base, against, figure))
        if not all(figures):
            lines.append(f"| {cell_name} | {against} | {target} | – | – | not measured |")
            continue
        reached = [median(ratios) >= target for ratios in figures]
        verdict = "reached" if all(reached) else "requests/s only" if reached[0] else "CPU only" if reached[1] else "not reached"
        lines.append(
            f"| {cell_name} | {against} | {target} | {median(figures[0]):.2f} | {median(figures[1]):.2f} | {verdict} |"
        )
    return lines


def memory_lines(run: dict) -> list[str]:
    lines = ["| server | PSS before the first request |", "|---|---:|"]
    return lines + [f"| {peer['title']} | {memory_text(peer['pss_kib_idle'])} |" for peer in run["peers"].values()]


def note_lines(run: dict) -> list[str]:
    lines = [f"- {peer['title']}: {peer['version']}" for peer in run["peers"].values()]
    lines += [f"- ¹ {peer['title']}: {peer['unequal']}." for peer in run["peers"].values() if peer["unequal"]]
    lines += [f"- {note}" for note in run["notes"]]
    lines.append("- bound: the loader used more than 90 % of its core, so the server could have done more.")
    for cell_name, cell in run["cells"].items():
        for name, result in cell.items():
            for number, one in enumerate(result["rounds"], 1):
                if one["void"]:
                    lines.append(f"- void: {cell_name}, {name}, round {number}: {one_line(one['void'])}")
    return lines


def ratio_text(ratios: list[float], is_base: bool) -> str:
    if is_base:
        return "1"
    return f"{median(ratios):.2f}" if ratios else "–"


def memory_text(kib: int | None) -> str:
    return "–" if kib is None else f"{kib / 1024:,.0f} MiB"


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]


def write(run: dict, folder: Path, configurations: dict[str, str]) -> None:
    """run.json has everything, table.md the table, configurations/ what every server was told."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
    (folder / "table.md").write_text(table(run))
    (folder / "configurations").mkdir(exist_ok=True)
    for name, text in configurations.items():
        (folder / "configurations" / name).write_text(text)
