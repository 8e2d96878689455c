"""Expressions mean, cost and are refused for what kube-apiserver's own code says, expression by expression."""

from __future__ import annotations

import random
import re
import subprocess
from typing import Any

import orjson
import pytest

from shoal.objects.celvalidation.compiled_rules import build_rule_tree
from tests.objects.cel.expressions import expression
from tests.objects.cel.samples import OBJECT, SCHEMA
from tests.real.building import built

KEY = "x-kubernetes-validations"
EXPRESSIONS, SEED = 3000, 20
LIMIT = 1_000_000
NO_OVERLOAD = "no such overload"


def schema(source: str) -> dict[str, Any]:
    return {**SCHEMA, KEY: [{"rule": source, "message": "told"}]}


def asked(sources: list[str]) -> list[dict[str, Any]]:
    program = built("cel")
    if program is None:
        pytest.skip("cel (not built)")
    lines = b"\n".join(orjson.dumps({"schema": schema(source), "obj": OBJECT, "root": True}) for source in sources)
    done = subprocess.run([program], input=lines, capture_output=True, check=True)
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def theirs(answer: dict[str, Any]) -> tuple[Any, ...]:
    assert "failed" not in answer, answer
    rule = answer["rules"][0]
    if "error" in rule:
        return ("refused", re.sub(r"selfType\d+", "selfType", rule["error"]))
    if not answer["errors"]:
        return (True, answer["cost"], rule["cost"])
    told = answer["errors"][0]
    if told == "<nil>: Invalid value: told":
        return (False, answer["cost"], rule["cost"])
    if NO_OVERLOAD in told:
        return (NO_OVERLOAD, rule["cost"])
    return (told.removeprefix('<nil>: Invalid value: "object": ').removesuffix(" evaluating rule: told"), rule["cost"])


def ours(source: str) -> tuple[Any, ...]:
    place = build_rule_tree(schema(source))
    assert place is not None
    assert place.decl_type is not None
    rule = place.rules[0]
    if rule.program is None:
        return ("refused", rule.error)
    found = rule.program.evaluate([place.decl_type.convert_value(OBJECT), None], LIMIT)
    if found.error is not None:
        return (str(found.error), rule.estimated_cost)
    return (found.value, found.cost, rule.estimated_cost)


def test_agreement() -> None:
    dice = random.Random(SEED)
    sources = list(dict.fromkeys(expression(dice, dice.choice((1, 2, 3))) for _ in range(EXPRESSIONS)))
    answers = [theirs(answer) for answer in asked(sources)]
    assert len(answers) == len(sources)
    pairs = [(source, answer, ours(source)) for source, answer in zip(sources, answers, strict=True)]
    # An argument that fails ends a call: where `||` absorbs the error, what the others would cost is missing.
    cheaper = [pair for pair in pairs if len(pair[1]) == len(pair[2]) == 3 and pair[1][1] > pair[2][1]]
    assert len(cheaper) <= len(sources) // 200
    different = [pair for pair in pairs if pair[1] != pair[2] and pair not in cheaper]
    assert different == []
    assert all(answer[::2] == own[::2] for _, answer, own in cheaper)
