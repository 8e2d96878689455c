"""A program can read every line of a serving process: klog's format, or JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shoal.cli.main import shoal
from shoal.telemetry import logs

KLOG = re.compile(r"^[DIWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+/\w+\.py:\d+\] .+$")
HANG = 120.0


@pytest.fixture
def shoal_log() -> Iterator[logging.Logger]:
    found, others = logging.getLogger("shoal"), logging.getLogger()
    kept = found.handlers[:], found.level, found.propagate, others.handlers[:], others.level, dict(logs._config)
    yield found
    found.handlers[:], found.propagate, others.handlers[:] = kept[0], kept[2], kept[3]
    found.setLevel(kept[1])
    others.setLevel(kept[4])
    logs._config.update(kept[5])


def write_log_lines(found: logging.Logger) -> None:
    found.getChild("runtime").info("%s: %s; again in %.1f s", "loop", "a\nb", 0.1)
    found.getChild("apiserver").warning("said")
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        found.exception("failed")


def test_text_is_klogs(shoal_log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="info", log_format="text")
    write_log_lines(shoal_log)
    lines = capsys.readouterr().err.splitlines()
    heads = [line for line in lines if not line.startswith("    ")]
    assert [line[0] for line in heads] == ["I", "W", "E"]
    assert all(KLOG.match(line) for line in heads)
    assert heads[0].endswith(r"loop: a\nb; again in 0.1 s")
    assert lines[-2:] == ["    ValueError: broken", "    in two"]


def test_json_is_one_object_a_line(shoal_log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="info", log_format="json")
    write_log_lines(shoal_log)
    logs.print_message("Shoal is ready")
    logs.print_message("it did not work", error=True, hint="try again")
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["level"] for each in found] == ["info", "warning", "error", "info", "error"]
    assert (found[0]["logger"], found[0]["v"], found[0]["msg"]) == ("shoal.runtime", 0, "loop: a\nb; again in 0.1 s")
    assert (found[2]["err"], "v" in found[2]) == ("ValueError: broken\nin two", False)
    assert found[4]["hint"] == "try again"
    assert all(isinstance(each["ts"], float) for each in found)


def test_the_level_is_kept(shoal_log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="error", log_format="text")
    write_log_lines(shoal_log)
    assert [line[0] for line in capsys.readouterr().err.splitlines() if line[0] != " "] == ["E"]


def start_server(directory: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "shoal.cli.main", "up", "--data-dir", str(directory), "--listen", "127.0.0.1:0"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHOAL_")}
    return subprocess.Popen([*command, "--workers", "1", *flags], stderr=subprocess.PIPE, text=True, env=environment)


def test_every_line_of_a_server_is_json_where_asked(tmp_path: Path) -> None:
    process = start_server(tmp_path / "data", "--log-format", "json", "--log-level", "debug")
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(json.loads(line))
        if lines[-1]["msg"].startswith("next: "):
            process.send_signal(signal.SIGTERM)
    process.stderr.close()
    assert process.wait(HANG) == 0
    said = [line["msg"] for line in lines]
    assert any(text.startswith("Shoal is ready at https://127.0.0.1:") for text in said)
    assert said[-1] == "stopping" or "stopping" in said
    assert all({"ts", "logger", "level", "msg"} <= line.keys() for line in lines)
    token = (tmp_path / "data" / "admin-token").read_text().strip()
    assert not any(token in line for line in map(json.dumps, lines))


def test_a_start_that_fails_says_so_in_json_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    process = start_server(tmp_path / "file", "--log-format", "json")
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode != 0
    assert [json.loads(line)["level"] for line in errors.splitlines()] == ["error"]


@pytest.mark.parametrize("name", ["up", "hub", "worker", "syncer", "controllers", "provisioner", "nodes"])
def test_every_command_that_serves_has_the_flags(name: str) -> None:
    command = shoal.get_command(click.Context(shoal), name)
    assert command is not None
    options = {option for each in command.params for option in each.opts}
    assert {"--log-level", "--log-format", "--tracing-endpoint"} <= options
