"""Expressions compared with results recorded from upstream's code (v1.36.4): compile errors, values, run-time errors,
costs, and the estimate that decides if a definition may have the rule.

The cost of a failed evaluation is not recorded: Shoal stops at the first argument that fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shoal.objects import cel
from shoal.objects.cel.cost_estimate import estimate_cost
from tests.objects.cel.samples import OBJECT, self_type

CASES: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "golden.json").read_bytes())


def compile_error(source: str, kind: Any) -> str:
    try:
        program = cel.compile_expression(source, {"self": kind.cel_type})
    except cel.InstantiationError as problem:
        return f"program instantiation failed: {problem}"
    except cel.CELCompileError as problem:
        return f"compilation failed: {problem}"
    return "" if program.result.kind == "bool" else "cel expression must evaluate to a bool"


def test_golden() -> None:
    kind = self_type()
    held = kind.convert_value(OBJECT)
    for case in CASES:
        source = case["expression"]
        assert compile_error(source, kind) == case.get("refused", ""), source
        if "refused" in case:
            continue
        program = cel.compile_expression(source, {"self": kind.cel_type})
        found = program.evaluate([held], cel.PER_CALL_LIMIT)
        assert estimate_cost(program.checked, kind.max_size_at) == case["estimate"], source
        if "error" in case:
            assert str(found.error) == case["error"], source
        else:
            assert (found.value, found.error, found.cost) == (case["value"], None, case["cost"]), source


@pytest.mark.parametrize(("key", "least"), [("refused", 40), ("error", 40), ("value", 600)])
def test_the_record_is_there(key: str, least: int) -> None:
    assert sum(key in case for case in CASES) > least
