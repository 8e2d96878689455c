"""Settings of every test: asyncio only, reproducible properties, and skips that say what was not run."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("shoal", derandomize=True, deadline=None, print_blob=False)
settings.load_profile("shoal")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = {str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")}
    for reason in sorted(reasons):
        terminalreporter.write_line(f"NOT RUN: {reason.removeprefix('Skipped: ')}")
