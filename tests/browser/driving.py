"""Runs one of the programs in `web/browser/` in Chromium, does what it asks for, and collects what it reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from scripts.web import WEB, CheckSkipped, ensure_packages
from tests.serving import HANG

Object = dict[str, Any]
Deeds = Mapping[str, Callable[[], object]]
"""What happens outside of the browser, by name; its answer is told to the program."""

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> tuple[str, str]:
    """Chromium and node."""
    named = os.environ.get("SHOAL_CHROMIUM", "")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), "")
    if not found:
        pytest.skip("chromium")
    try:
        return found, ensure_packages()
    except CheckSkipped as missing:
        pytest.skip(f"browser ({missing})")


class Reports:
    def __init__(self, told: list[Object]) -> None:
        self._told = told

    def all(self, what: str) -> list[Object]:
        return [report for report in self._told if report["what"] == what]

    def one(self, what: str) -> Object:
        (report,) = self.all(what)
        return report


def drive(program: str, environment: Mapping[str, str], deeds: Deeds) -> Reports:
    chromium, node = browser()
    pictures = os.environ.get("SHOAL_SCREENSHOTS", "")
    environ = {
        **os.environ,
        **environment,
        "SHOAL_CHROMIUM": chromium,
        "SHOAL_SCREENSHOTS": os.path.abspath(pictures) if pictures else "",
    }
    # A file: a pipe that nobody reads would fill up.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [node, str(WEB / "browser" / program)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            bufsize=1,
        )
        guard = threading.Timer(5 * HANG, process.kill)
        guard.start()
        try:
            told = _follow(process, deeds)
            code = process.wait(HANG)
        finally:
            guard.cancel()
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
        errors.seek(0)
        assert code == 0, f"{program} ended with {code}: {told[-3:]}\n{errors.read()[-4000:]}"
    return Reports(told)


def _follow(process: subprocess.Popen[str], deeds: Deeds) -> list[Object]:
    assert process.stdin is not None
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        report = json.loads(line)
        if report["what"] == "please":
            process.stdin.write(json.dumps(deeds[report["deed"]]()) + "\n")
        else:
            told.append(report)
    return told
