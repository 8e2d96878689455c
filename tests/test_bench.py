"""The benchmark works: every load against our own server with tiny counts, and a report that says what was found."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from bench import clusters, etcd, measure, peer, plan, report, story, subject
from bench.connection import WatchConnection
from bench.load import quantile
from bench.measure import Row
from bench.processes import cpu_seconds, resident_mb, tree
from bench.servers import BenchmarkFailed, Shoal
from tests.etcd import etcd_program

TINY = replace(
    plan.QUICK, seconds=0.05, warm=0.0, created=8, updated=32, listed=20, watchers=3, rate=100, updates=4, settle=0.0
)


def test_every_load_runs_against_shoal_and_leaves_no_process(tmp_path: Path) -> None:
    started: list[Shoal] = []
    pids: list[int] = []

    class Seen(Shoal):
        def start(self) -> float:
            took = super().start()
            started.append(self)
            pids.extend(process.pid for process in self.processes.values())
            return took

    keys = set(plan.KEYS) - {"memory"}
    rows = measure.run(keys, TINY, {report.SHOAL: Seen}, tmp_path, lambda _: None)
    assert [row.title for row in rows][:2] == ["first start", "start on an existing data directory"]
    operations = {row.title: row.figures[report.SHOAL]["operations"] for row in rows if row.kind == "load"}
    assert operations["create, 32 connections"] == 8
    assert operations["events, 3 watchers, 100 updates/s"] == 12
    assert operations["events, 3 watchers, burst of updates"] == 12
    assert operations["list of 20"] >= 2
    assert operations["update, 32 connections"] >= 32
    assert len(pids) == 3
    assert all(not server.processes for server in started)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    text = report.tables(rows)
    assert "| get, 64 connections" in text
    assert "≥ 20x" in text


def test_shoal_on_etcd_is_measured_with_its_etcd() -> None:
    program = etcd_program()
    seen: list[dict[str, list[int]]] = []

    class Shared(etcd.ShoalOnEtcd):
        def stop(self) -> None:
            seen.append(self.pids())
            super().stop()

    class Local(etcd.ShoalWithLocalEtcd):
        def stop(self) -> None:
            seen.append(self.pids())
            super().stop()

    ours: dict[str, measure.Make] = {
        "shared etcd": lambda directory: Shared(directory, program),
        "local etcd": lambda directory: Local(directory, program),
    }
    assert list(ours) == list(etcd.ways(program))
    # Not below tmp_path: the name of a socket has to fit into a hundred bytes.
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        rows = measure.on_etcd(TINY, ours, {}, Path(directory), lambda _: None)
    titles = [row.title for row in rows]
    assert titles[:2] == ["get, 32 connections, shared etcd", "get, 32 connections, local etcd"]
    assert {row.goal for row in rows if row.title.startswith("create")} == {3}
    assert {row.figures[report.SHOAL]["operations"] for row in rows if row.title.startswith("create")} == {8}
    assert [{program: len(pids) for program, pids in found.items()} for found in seen] == [{"shoal": 1, "etcd": 1}] * 2
    assert not any(Path(f"/proc/{pid}").exists() for found in seen for pids in found.values() for pid in pids)
    assert "| list of 20, local etcd" in report.tables(rows)


def test_hosted_clusters_are_made_put_to_sleep_and_deleted(tmp_path: Path) -> None:
    rows = clusters.run(replace(TINY, clusters=5), tmp_path, lambda _: None)
    goals = {row.title: (row.goal, row.figures[report.SHOAL]["unit"]) for row in rows if row.goal}
    assert goals["5 hosted clusters created"] == (100, "per second")
    assert goals["memory of one that had requests and is idle"] == (100, "KB")
    assert goals["5 hosted clusters deleted"] == (60, "s")
    few = Row("made", "clusters", 100, {report.SHOAL: {"value": 99.4, "unit": "a second", "at_least": True}})
    small = Row("size", "clusters", 100, {report.SHOAL: {"value": 20.0, "unit": "KB", "at_least": False}})
    text = report.tables([few, small])
    assert "| made            | 99.4 a second | ≥ 100 a second | missed |" in text
    assert "| size            | 20 KB         | ≤ 100 KB       | met    |" in text


def test_every_step_of_the_story_is_timed(tmp_path: Path) -> None:
    rows = story.run(TINY, tmp_path, lambda _: None)
    assert {row.title: row.goal for row in rows} == story.STEPS
    assert all(row.figures[report.SHOAL]["value"] > 0 for row in rows)
    assert sum(row.figures[report.SHOAL]["cpu_seconds"] for row in rows) > 0
    slow = Row("slow", "story", 0.5, {report.SHOAL: {"value": 0.6, "worst": 0.75, "cpu_seconds": 0.2}})
    line = report.tables([*rows, slow]).splitlines()[-1]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["slow", "0.6", "0.75", "0.2", "≤ 0.5 s", "missed"]


def test_an_answer_that_is_no_success_ends_the_benchmark(tmp_path: Path) -> None:
    with Shoal(tmp_path) as server:
        server.start()
        with pytest.raises(BenchmarkFailed, match=r"^Shoal, list: \{'status 404': 2\} in 2 operations$"):
            measure.generate(server, "absent", {"verb": "list", "connections": 1, "seconds": 0.0, "warm": 0.0})


def test_a_server_that_cannot_start_is_reported_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with Shoal(tmp_path) as server, pytest.raises(BenchmarkFailed, match=r"^shoal exited with 1: .*data"):
        server.start()


def test_objects_have_the_same_size_and_fit_the_definition() -> None:
    assert len(orjson.dumps(subject.machine("bench-get", "m-00000000"))) == subject.SIZE
    assert len(orjson.dumps(subject.machine("a-longer-namespace", "m-00000001"))) == subject.SIZE
    schema = subject.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties = schema["properties"]["spec"]["properties"]
    assert len(properties) == 20
    assert set(subject.machine("default", "m")["spec"]) == set(properties)


def test_watched_events_are_lines_wherever_the_pieces_are_cut() -> None:
    found: list[bytes] = []
    watching = WatchConnection(found.append)
    for piece in (b'{"a":1}\n', b'{"b"', b":2}\n{", b'"c":3}\n', b'{"d":4}\n{"e":5}\n'):
        watching.on_body(piece)
    assert [orjson.loads(line) for line in found] == [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}, {"e": 5}]


def test_rounds_are_taken_in_turn() -> None:
    assert list(measure._turns(2, ["a", "b"])) == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]
    assert measure._median([{"rate": 1.0}, {"rate": 9.0}, {"rate": 2.0}]) == {"rate": 2.0}
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile([], 0.99) == 0.0


def figures(rate: float, per_cpu: float, alone: float, client: float = 0.2) -> measure.Figures:
    both = {"rate": rate, "per_cpu": per_cpu, "per_cpu_alone": alone, "client_share": client}
    return {**both, "p50_ms": 1.234, "p99_ms": 12.34}


def test_the_tables_compare_and_judge() -> None:
    pair = {report.SHOAL: figures(24000, 25000, 25000), report.PEER: figures(2000, 1000, 1250)}
    met, missed = Row("get", "load", 20, pair), Row("list", "load", 50, pair)
    line = report.tables([met, missed]).splitlines()
    assert [cell.strip() for cell in line[2].split("|")[1:-1]] == [
        "get", "24,000", "2,000", "12x", "1.23 / 12.3", "1.23 / 12.3",
        "25,000", "1,000", "1,250", "25x", "20x", "≥ 20x", "met",
    ]  # fmt: skip
    assert line[3].rstrip(" |").endswith("missed")
    memory = Row(
        "resident", "megabytes", 0.25, {report.SHOAL: {"value": 50}, report.PEER: {"value": 300, "alone": 250}}
    )
    start = Row("start", "seconds", 0.8, {report.SHOAL: {"value": 0.9}})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.tables([memory, start]).splitlines()]
    assert rows[2] == ["resident", "50 MB", "300 MB", "250 MB", "0.167x", "≤ 1/4", "met"]
    assert rows[3] == ["start", "0.9 s", "", "", "", "≤ 0.8 s", "missed"]


def test_the_etcd_of_both_is_counted() -> None:
    pair = {report.SHOAL: figures(3000, 900, 1500), report.PEER: figures(600, 250, 300)}
    line = report.tables([Row("create, local etcd", "etcd", 3, pair)]).splitlines()
    assert [cell.strip() for cell in line[2].split("|")[1:-1]] == [
        "create, local etcd", "3,000", "600", "5x", "1.23 / 12.3", "1.23 / 12.3",
        "900", "1,500", "250", "300", "3.6x", "≥ 3x", "met",
    ]  # fmt: skip


def test_a_busy_generator_is_told() -> None:
    row = Row("get", "load", 0, {report.SHOAL: figures(60000, 60000, 60000, client=0.99)})
    assert "60,000*" in report.tables([row])
    assert "it limits the wall rate" in report.footnotes([row])


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- results -->\nold\n<!-- end of results -->\nafter\n")
    report.write_into(page, "new")
    assert page.read_text() == "before\n<!-- results -->\nnew\n<!-- end of results -->\nafter\n"


def test_the_peer_is_found_in_its_directory_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("SHOAL_PEERS", str(tmp_path / "peers"))
    assert peer.find_programs() is None
    for place in ("path", "peers"):
        for program in peer.PROGRAMS:
            file = tmp_path / place / program
            file.parent.mkdir(exist_ok=True)
            file.write_text("#!/bin/sh\n")
            file.chmod(0o755)
    assert peer.find_programs() == {program: tmp_path / "peers" / program for program in peer.PROGRAMS}
    (tmp_path / "peers" / "etcd").unlink()
    (tmp_path / "path" / "etcd").unlink()
    assert peer.find_programs() is None


def test_a_tree_counts_the_children() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert set(tree(os.getpid())) >= {os.getpid(), child.pid}
        assert resident_mb([child.pid]) > 1
        assert cpu_seconds([os.getpid()]) > 0
    finally:
        child.communicate(b"\n")
    assert tree(child.pid) == [child.pid]
    assert cpu_seconds([child.pid]) == resident_mb([child.pid]) == 0
