"""Every case of tests/faults/growth against a server of its own (`make soak`): the worst stalls and growths.

SHOAL_GROWTH_RESULTS is the file of results, one line each; a run goes on with the cases that have none there.
SHOAL_GROWTH_ONLY is a regular expression of names of cases. The times that are printed mean something on a quiet
machine; what is asserted is CPU time, answers and the log.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.faults.growth.everything import everything
from tests.faults.growth.results import Results, summary
from tests.faults.growth.run import Run

pytestmark = pytest.mark.soak

ONLY = re.compile(os.environ.get("SHOAL_GROWTH_ONLY", ""))


def test_nobody_waits_for_what_somebody_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = Results()
    run = Run(tmp_path, results)
    try:
        run.cases(case for case in everything() if ONLY.search(case.name))
    finally:
        run.close()
        results.close()
        found = [result for name, result in results.all.items() if ONLY.search(name)]
        with capsys.disabled():
            print(f"\n{summary(found)}\n\nAll of them: {results.path}")
    failures = [failure for result in found if (failure := result.failure())]
    assert failures == []
