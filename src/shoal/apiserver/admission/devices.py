"""Dynamic resource allocation (resource.k8s.io): sets taint times, checks admin access, and authorizes status writes.

Several writers share a claim's status: the scheduler, which needs permission to bind claims, and drivers, which need
permission for their devices. Both permissions are expressed as subresources that are not served.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz import Attributes, forbidden
from shoal.apiserver.core import Call, Core
from shoal.clock import rfc3339
from shoal.kinds.resource_slices import date_taints
from shoal.kinds.resource_status import device_id, drop_given_back
from shoal.objects.errors import Cause, forbidden_field, invalid_object

Object = dict[str, Any]

GROUP = "resource.k8s.io"
CLAIMS, TEMPLATES, SLICES = "resourceclaims", "resourceclaimtemplates", "resourceslices"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"
ARBITRARY, ASSOCIATED = "arbitrary-node:", "associated-node:"
NODE_NAME = "authentication.kubernetes.io/node-name"


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    plural = call.resource.plural
    causes: list[Cause] = []
    if plural == SLICES:
        date_taints(new, rfc3339(core.clock.now()))
    elif old is None and plural in (CLAIMS, TEMPLATES):
        spec = new["spec"] if plural == CLAIMS else new["spec"]["spec"]
        requests = enumerate(spec["devices"]["requests"] or ())
        asking = (i for i, request in requests if (request.get("exactly") or {}).get("adminAccess"))
        causes = _administered(core, call, "spec.devices.requests[{}].adminAccess", next(asking, None))
    elif old is not None and plural == CLAIMS and call.target.subresource == "status":
        drop_given_back(new, old)
        causes = _status(core, call, new.get("status") or {}, old.get("status") or {})
    if causes:
        name = new["metadata"].get("name") or ""
        raise invalid_object(call.resource.kind, GROUP, name, causes + call.resource.rules.validate(new, old))


def _administered(core: Core, call: Call, path: str, index: int | None) -> list[Cause]:
    if index is None:
        return []
    entry = core.cache.kind("", "namespaces").get(call.target.cluster, "", call.namespace)
    if entry is not None and entry.labels.get(ADMIN_LABEL) == "true":
        return []
    told = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden_field(path.format(index), told)]


def _status(core: Core, call: Call, status: Object, before: Object) -> list[Cause]:
    causes: list[Cause] = []
    if _administering(before) is None:
        causes += _administered(core, call, "status.allocation.devices.results[{}].adminAccess", _administering(status))
    if call.user.privileged_in(call.target.cluster):
        return causes
    if any(status.get(field) != before.get(field) for field in ("allocation", "reservedFor")):
        refused = _refused(core, call, (call.verb,), "binding", "", "")
        if refused:
            told = "changing status.allocation or status.reservedFor requires "
            told += f'resource="resourceclaims/binding", verb="{call.verb}" permission: {refused}'
            causes.append(forbidden_field("status.allocation", told))
    if status.get("allocation") is not None:
        causes += _drivers(core, call, status, before)
    return causes


def _administering(status: Object) -> int | None:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return next((i for i, result in enumerate(results) if result.get("adminAccess")), None)


def _drivers(core: Core, call: Call, status: Object, before: Object) -> list[Cause]:
    new, old = ({device_id(one): one for one in each.get("devices") or ()} for each in (status, before))
    changed = {key[0] for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    beside = (ASSOCIATED,) if _beside(call, status["allocation"]) else ()
    verbs = tuple(prefix + call.verb for prefix in (*beside, ARBITRARY))
    causes = []
    for driver in sorted(changed):
        refused = _refused(core, call, verbs, "driver", call.namespace, driver)
        if refused:
            told = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
            causes.append(forbidden_field("status.devices", f"{told}permission: {refused}"))
    return causes


def _beside(call: Call, allocation: Object) -> bool:
    """Reports whether the user is a service account on the single node of the allocated devices."""
    names = call.user.extra.get(NODE_NAME) or ()
    if len(names) != 1 or not call.user.name.startswith("system:serviceaccount:"):
        return False
    wanted = {"key": "metadata.name", "operator": "In", "values": list(names)}
    return bool((allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") == [{"matchFields": [wanted]}])


def _refused(core: Core, call: Call, verbs: tuple[str, ...], subresource: str, namespace: str, name: str) -> str:
    """Returns why the first verb is denied; empty if any of the verbs is allowed."""
    said = ""
    for verb in verbs:
        wanted = Attributes(
            call.target.cluster, verb, GROUP, call.resource.version, CLAIMS, subresource, namespace, name
        )
        decision = core.authorizer.authorize(call.user, wanted)
        if decision.allowed:
            return ""
        said = said or forbidden(call.user, wanted, decision.reason).message
    return said
