"""Histories of updates and applies, compared with the results of structured-merge-diff v6.3.3.

`upstream_answers.json` was recorded from apimachinery's field manager for the schema in it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from shoal.objects.apply import Object, TypeSchema
from shoal.objects.errors import StatusError
from tests.objects.apply.samples import NOW, apply_config, update

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("upstream_answers.json").read_text())
SCHEMA = TypeSchema(RECORDED["schema"])


@pytest.mark.parametrize("number", range(len(RECORDED["cases"])))
def test_the_same_history_gives_the_same_object_and_owners(number: int) -> None:
    live: Object | None = None
    for step in RECORDED["cases"][number]:
        if "error" in step:
            with pytest.raises(StatusError) as refused:
                run(live, step)
            assert refused.value.message == step["error"]
            continue
        live = run(live, step)
        meta = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
        assert {name: live[name] for name in ("spec", "status") if name in live} == step["object_after"]
        assert meta == step["metadata_after"]
        assert managers(live) == step["managers"]


def run(live: Object | None, step: dict[str, Any]) -> Object:
    obj, subresource = copy.deepcopy(step["object"]), step.get("subresource", "")
    if step["op"] == "update":
        return update(live, obj, step["manager"], now=NOW, schema=SCHEMA, subresource=subresource)
    force = step.get("force", False)
    return apply_config(live, obj, step["manager"], now=NOW, schema=SCHEMA, force=force, subresource=subresource)


def managers(obj: Object) -> list[dict[str, Any]]:
    found = [
        {key: value for key, value in entry.items() if key in ("manager", "operation", "subresource", "fieldsV1")}
        | {"timed": "time" in entry}
        for entry in obj["metadata"].get("managedFields", [])
    ]
    return sorted(found, key=lambda entry: (entry["operation"], entry["manager"], entry.get("subresource", "")))
