"""The dynamic resource allocation kinds of resource.k8s.io/v1: defaults, and specs that do not change. Pure.

Selectors in them are CEL, which is kept and not evaluated.
"""

from __future__ import annotations

from shoal.kinds.checks import Object, immutable, section
from shoal.objects.errors import Cause, required


def default_claim(obj: Object) -> None:
    _default_requests(section(obj, "spec"))
    section(obj, "status")


def default_claim_template(obj: Object) -> None:
    spec = section(obj, "spec")
    section(spec, "metadata")
    _default_requests(section(spec, "spec"))


def _default_requests(spec: Object) -> None:
    for request in section(spec, "devices").setdefault("requests", None) or ():
        for wanted in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if wanted is not None:
                wanted["allocationMode"] = wanted.get("allocationMode") or "ExactCount"
                if wanted["allocationMode"] == "ExactCount" and not wanted.get("count"):
                    wanted["count"] = 1


def validate_fixed_spec(obj: Object, old: Object | None) -> list[Cause]:
    return [] if old is None else _fixed(obj, old)


def _fixed(obj: Object, old: Object) -> list[Cause]:
    return immutable({"spec": obj.get("spec")}, {"spec": old.get("spec")}, "", "spec")


def validate_slice(obj: Object, old: Object | None) -> list[Cause]:
    spec = section(obj, "spec")
    causes = [required(f"spec.{field}") for field in ("driver",) if not spec.get(field)]
    if not (spec.get("pool") or {}).get("name"):
        causes.append(required("spec.pool.name"))
    if old is not None:
        causes += immutable(spec, old["spec"], "spec", "driver", "nodeName")
    return causes
