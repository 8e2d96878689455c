"""Pruning, defaulting and validation compared with results recorded from upstream's code (v1.36.4).

`golden.json` holds the recorded cases in which Shoal gives the same result. Intended differences are in
`test_where_shoal_differs`, with upstream's result beside them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shoal.objects.schema import compile_schema as compiled
from tests.objects.schema.samples import object_with, resource

CASES: list[dict[str, Any]] = orjson.loads((Path(__file__).parent / "golden.json").read_bytes())


def with_spec(spec: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": "a/v1", "kind": "K"}
    return obj if spec == "absent" else obj | {"spec": spec}


def test_golden() -> None:
    for case in CASES:
        schema = compiled({"type": "object", "properties": {"spec": case["schema"]}})
        obj = with_spec(case["given"])
        unknown = schema.prune_unknown(obj)
        schema.default(obj)
        causes = schema.validate(obj, with_spec(case["old"]) if "old" in case else None)
        assert unknown == [f'unknown field "{path}"' for path in case.get("unknown", ())], case
        assert obj == with_spec(case["spec"]), case
        assert sorted({f"{cause.reason}|{cause.message}" for cause in causes}) == case["causes"], case


def test_the_record_is_there() -> None:
    assert len(CASES) > 800
    assert sum(not case["causes"] for case in CASES) > 200


@pytest.mark.parametrize(
    ("field", "value", "messages"),
    [
        pytest.param(
            {"type": "string", "format": "date"},
            [],
            ['spec.x: Invalid value: "array": spec.x in body must be of type string: "array"'],
            id="upstream accepts a list for a string with a format",
        ),
        pytest.param(
            {"type": "number", "enum": [3]},
            3.25,
            ['spec.x: Unsupported value: 3.25: supported values: "3"'],
            id="upstream rounds a number before it looks into the enum",
        ),
        pytest.param(
            {"type": "number", "maximum": 1.5},
            2,
            ["spec.x: Invalid value: 2: spec.x in body should be less than or equal to 1.5"],
            id="upstream rounds bounds for whole numbers, and says 1",
        ),
        pytest.param({"type": "number", "multipleOf": 0.1}, 1, [], id="upstream rounds the factor to 0 and refuses"),
        pytest.param(
            {"type": "string", "enum": ["a"]},
            2**63,
            [
                'spec.x: Invalid value: "number": spec.x in body must be of type string: "number"',
                'spec.x: Unsupported value: 9223372036854775808: supported values: "a"',
            ],
            id="upstream shows large numbers as 9.223372036854776e+18",
        ),
    ],
)
def test_where_shoal_differs(field: dict[str, Any], value: Any, messages: list[str]) -> None:
    assert [cause.message for cause in compiled(resource(field)).validate(object_with(value))] == messages


def test_objects_in_place_of_scalars_are_left_to_validation() -> None:
    """Upstream empties them first, and names what was inside as unknown; both then refuse the type."""
    schema = compiled(resource({"type": "string"}))
    obj = object_with({"a": 1})
    assert schema.prune_unknown(obj) == []
    assert len(schema.validate(obj)) == 1
