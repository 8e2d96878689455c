"""Messages of unknown fields, for fieldValidation Warn and Strict: `unknown field "spec.list[0].foo"`."""

from __future__ import annotations

from shoal.objects.schema.prune import DroppedFields
from shoal.objects.schema.structural import Json


def unknown_field_errors(root: dict[str, Json], dropped: DroppedFields) -> list[str]:
    """Returns one message per field that was dropped from `root`, sorted by path."""
    holders = {id(holder) for holder, _ in dropped}
    paths: dict[int, str] = {}
    pending: list[tuple[str, Json]] = [("", root)]
    while pending and len(paths) < len(holders):
        path, value = pending.pop()
        if value.__class__ is dict:
            if id(value) in holders:
                paths[id(value)] = path
            pending.extend((f"{path}.{key}" if path else key, inner) for key, inner in value.items())
        elif value.__class__ is list:
            pending.extend((f"{path}[{index}]", inner) for index, inner in enumerate(value))
    fields = (f"{paths[id(holder)]}.{key}" if paths[id(holder)] else key for holder, key in dropped)
    return [f'unknown field "{path}"' for path in sorted(fields)]
