"""A CustomResourceDefinition's names are accepted, and its kinds established, in the write itself.

So a client may create objects of a new kind as soon as its definition is acknowledged. Names that another
definition holds are not accepted until it goes; then the definitions loop touches the waiting one.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.clock import rfc3339
from shoal.kinds.apiextensions import establish, record_stored_version

GROUP = "apiextensions.k8s.io"


def admit(core: Core, call: Call, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    if not new["metadata"].get("name"):
        return
    group = new["spec"].get("group")
    others = [
        entry.object()
        for entry in call.kind.table(call.target.cluster).select("")
        if entry.name != new["metadata"]["name"] and entry.name.endswith(f".{group}")
    ]
    taken = [
        {
            "plural": resource.plural,
            "singular": resource.singular,
            "shortNames": list(resource.short_names),
            "kind": resource.kind,
            "listKind": resource.list_kind,
        }
        for resource in core.clusters.registry(call.cluster)
        if not resource.custom and resource.group == group
    ]
    record_stored_version(new)
    establish(new, others, taken, rfc3339(core.clock.now()))
