"""The figures as people read them: two Markdown tables with the goals, and what they were measured on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from bench.measure import PEER as PEER
from bench.measure import SHOAL as SHOAL
from bench.measure import Figures, Row

BUSY = 0.9
_START, _END = "<!-- results -->", "<!-- end of results -->"


def conditions(peer: str) -> str:
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores ({_processor()}), {platform.system()} {platform.release()}"
    return f"{day}; {machine}; Python {platform.python_version()}; {peer or 'NOT RUN: kube-apiserver'}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def tables(rows: list[Row]) -> str:
    found = [_load_table([row for row in rows if row.kind == "load"])]
    found.append(_etcd_table([row for row in rows if row.kind == "etcd"]))
    found.append(_value_table([row for row in rows if row.kind in ("seconds", "megabytes")]))
    found.append(_story_table([row for row in rows if row.kind == "story"]))
    found.append(_clusters_table([row for row in rows if row.kind == "clusters"]))
    found.append(_scheduling_table([row for row in rows if row.kind == "scheduling"]))
    found.append(_replicas_table([row for row in rows if row.kind == "replicas"]))
    found.append(_provision_table([row for row in rows if row.kind == "provision"]))
    return "\n\n".join(table for table in found if table)


def _load_table(rows: list[Row]) -> str:
    header = ["load", "Shoal /s", "peer /s", "wall ratio", "Shoal p50/p99 ms", "peer p50/p99 ms"]
    header += ["Shoal per CPU-s", "peer per CPU-s", "without etcd", "CPU ratio", "without etcd", "goal", ""]
    return _table(header, [_load_line(row) for row in rows])


def _load_line(row: Row) -> list[str]:
    ours, peer = row.figures[SHOAL], row.figures.get(PEER)
    busy = "*" if any(figures["client_share"] > BUSY for figures in row.figures.values()) else ""
    goal = f"≥ {row.goal:g}x" if row.goal else ""
    if peer is None:
        line = [number(ours["rate"]) + busy, "", "", _quantiles(ours), "", number(ours["per_cpu"])]
        return [row.title, *line, "", "", "", "", goal, ""]
    ratio = ours["per_cpu"] / peer["per_cpu"]
    alone = ours["per_cpu"] / peer["per_cpu_alone"]
    line = [number(ours["rate"]), number(peer["rate"]), times(ours["rate"] / peer["rate"]) + busy]
    line += [_quantiles(ours), _quantiles(peer), number(ours["per_cpu"]), number(peer["per_cpu"])]
    line += [number(peer["per_cpu_alone"]), times(ratio), times(alone)]
    return [row.title, *line, goal, _verdict(row.goal, ratio >= row.goal)]


def _etcd_table(rows: list[Row]) -> str:
    header = ["both on etcd", "Shoal /s", "peer /s", "wall ratio", "Shoal p50/p99 ms", "peer p50/p99 ms"]
    header += ["Shoal and etcd per CPU-s", "Shoal alone", "peer and etcd per CPU-s", "peer alone"]
    return _table([*header, "CPU ratio", "goal", ""], [_etcd_line(row) for row in rows])


def _etcd_line(row: Row) -> list[str]:
    """The etcd of each counts for it."""
    ours, peer = row.figures[SHOAL], row.figures.get(PEER)
    busy = "*" if any(figures["client_share"] > BUSY for figures in row.figures.values()) else ""
    goal = f"≥ {row.goal:g}x" if row.goal else ""
    cost = [number(ours["per_cpu"]), number(ours["per_cpu_alone"])]
    if peer is None:
        line = [row.title, number(ours["rate"]) + busy, "", "", _quantiles(ours), "", *cost]
        return [*line, "", "", "", goal, ""]
    ratio = ours["per_cpu"] / peer["per_cpu"]
    line = [row.title, number(ours["rate"]), number(peer["rate"]), times(ours["rate"] / peer["rate"]) + busy]
    line += [_quantiles(ours), _quantiles(peer), *cost, number(peer["per_cpu"]), number(peer["per_cpu_alone"])]
    return [*line, times(ratio), goal, _verdict(row.goal, ratio >= row.goal)]


def _quantiles(figures: Figures) -> str:
    return f"{number(figures['p50_ms'])} / {number(figures['p99_ms'])}"


def _value_table(rows: list[Row]) -> str:
    header = ["figure", "Shoal", "peer with etcd", "peer alone", "Shoal / peer", "goal", ""]
    return _table(header, [_value_line(row) for row in rows])


def _value_line(row: Row) -> list[str]:
    unit = "s" if row.kind == "seconds" else "MB"
    ours, peer = row.figures[SHOAL]["value"], row.figures.get(PEER)
    line = [row.title, f"{number(ours)} {unit}", "", "", ""]
    if peer is not None:
        line[2] = f"{number(peer['value'])} {unit}"
        line[3] = f"{number(peer['alone'])} {unit}" if "alone" in peer else ""
        line[4] = times(ours / peer["value"])
    if row.kind == "seconds":
        return [*line, f"≤ {row.goal:g} s" if row.goal else "", _verdict(row.goal, ours <= row.goal)]
    met = _verdict(row.goal, ours <= row.goal * peer["value"]) if peer is not None else ""
    return [*line, f"≤ 1/{1 / row.goal:g}", met]


def _story_table(rows: list[Row]) -> str:
    header = ["the story, `shoal up --workers 2`", "seconds", "slowest round", "CPU-seconds", "goal", ""]
    return _table(header, [_story_line(row) for row in rows])


def _story_line(row: Row) -> list[str]:
    ours = row.figures[SHOAL]
    line = [row.title, *(number(ours[figure]) for figure in ("value", "worst", "cpu_seconds"))]
    return [*line, f"≤ {row.goal:g} s" if row.goal else "", _verdict(row.goal, ours["value"] <= row.goal)]


def _clusters_table(rows: list[Row]) -> str:
    return _table(["hosted clusters", "Shoal", "goal", ""], [_clusters_line(row) for row in rows])


def _clusters_line(row: Row) -> list[str]:
    ours = row.figures[SHOAL]
    value, unit, least = ours["value"], ours["unit"], ours["at_least"]
    goal = f"{'≥' if least else '≤'} {row.goal:g} {unit}" if row.goal else ""
    met = value >= row.goal if least else value <= row.goal
    return [row.title, f"{number(value)} {unit}", goal, _verdict(row.goal, met)]


def _scheduling_table(rows: list[Row]) -> str:
    header = ["one hosted cluster", "Shoal pods /s", "kube-scheduler /s", "wall ratio"]
    header += ["Shoal CPU-seconds", "kube-scheduler and Shoal's API, CPU-seconds", "CPU ratio", "goal", ""]
    return _table(header, [_scheduling_line(row) for row in rows])


def _scheduling_line(row: Row) -> list[str]:
    ours, peer = row.figures[SHOAL], row.figures.get("kube-scheduler")
    line = [row.title, number(ours["rate"]), "", "", number(ours["cpu_seconds"]), "", ""]
    if peer is not None:
        line[2], line[3] = number(peer["rate"]), times(ours["rate"] / peer["rate"])
        line[5], line[6] = number(peer["cpu_seconds"]), times(peer["cpu_seconds"] / max(ours["cpu_seconds"], 0.01))
    return [*line, f"≥ {row.goal:,.0f} /s", _verdict(row.goal, ours["rate"] >= row.goal)]


def _replicas_table(rows: list[Row]) -> str:
    header = ["one Deployment", "Shoal s", "Kubernetes s", "wall ratio", "Shoal CPU-seconds", "Kubernetes CPU-seconds"]
    header += ["CPU ratio", "Shoal writes per pod", "Kubernetes writes per pod", "goal", ""]
    return _table(header, [_replicas_line(row) for row in rows])


def _replicas_line(row: Row) -> list[str]:
    """The process that plays the kubelets of Kubernetes is not in its CPU-seconds."""
    ours, peer = row.figures[SHOAL], row.figures.get("Kubernetes")
    line = [row.title, number(ours["value"]), "", "", number(ours["cpu_seconds"]), "", "", number(ours["writes"]), ""]
    if peer is not None:
        line[2], line[3] = number(peer["value"]), times(peer["value"] / ours["value"])
        line[5], line[6] = number(peer["cpu_seconds"]), times(peer["cpu_seconds"] / max(ours["cpu_seconds"], 0.01))
        line[8] = number(peer["writes"])
    return [*line, f"≤ {row.goal:g} s" if row.goal else "", _verdict(row.goal, ours["value"] <= row.goal)]


def _provision_table(rows: list[Row]) -> str:
    header = ["cost of the nodes", "per hour", "Karpenter's rule / LP bound", "plan / LP bound"]
    return _table([*header, "plan / best integer packing", "CPU-s"], [_provision_line(row) for row in rows])


def _provision_line(row: Row) -> list[str]:
    ours = row.figures[SHOAL]
    ratios = [f"{ours[figure]:.4f}" for figure in ("rule", "value", "integer")]
    return [row.title, f"{ours['price']:.3f}", *ratios, number(ours["seconds"])]


def _verdict(goal: float, met: bool) -> str:
    return ("met" if met else "missed") if goal else ""


def number(value: float) -> str:
    """Three figures that count."""
    if value >= 1000:
        return f"{round(value, 3 - len(str(int(value)))):,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def times(ratio: float) -> str:
    return f"{number(ratio)}x"


def _table(header: list[str], lines: list[list[str]]) -> str:
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    ruled = [header, ["-" * width for width in widths], *lines]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in ruled
    )


def footnotes(rows: list[Row]) -> str:
    busy = any(figures.get("client_share", 0) > BUSY for row in rows for figures in row.figures.values())
    return "\\* The load generator was saturated: it limits the wall rate." if busy else ""


def write_into(page: Path, text: str) -> None:
    """Replaces what stands between the two marks of a page."""
    content = page.read_text()
    before, after = content.index(_START) + len(_START), content.index(_END)
    page.write_text(f"{content[:before]}\n{text}\n{content[after:]}")
