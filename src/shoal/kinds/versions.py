"""The Kubernetes versions a cluster may have, and which of today's built-in APIs each of them serves.

A version serves the stable APIs that upstream's release of that minor served; the schemas are always the newest. A
cluster may be upgraded by any number of minors but never downgraded: an older version could not serve what a newer one
stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from shoal.objects.errors import Cause, forbidden_field, not_supported

Object = dict[str, Any]

KUBERNETES_VERSION = "v1.36.4"
"""The version of a cluster without one: the release whose APIs the server implements."""
OLDEST_MINOR, NEWEST_MINOR = 27, 36
"""Minors of version 1."""
SUPPORTED_VERSIONS = tuple(f"v1.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))

INTRODUCED_IN: dict[str, int] = {
    "selfsubjectreviews.authentication.k8s.io": 28,
    "flowschemas.flowcontrol.apiserver.k8s.io": 29,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": 29,
    "validatingadmissionpolicies.admissionregistration.k8s.io": 30,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": 30,
    "ipaddresses.networking.k8s.io": 33,
    "servicecidrs.networking.k8s.io": 33,
    "pods/resize": 33,
    "deviceclasses.resource.k8s.io": 34,
    "resourceclaims.resource.k8s.io": 34,
    "resourceclaimtemplates.resource.k8s.io": 34,
    "resourceslices.resource.k8s.io": 34,
    "volumeattributesclasses.storage.k8s.io": 34,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": 36,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": 36,
}
"""The first minor with the stable version of an API. All other APIs are older than the oldest minor here."""
DEPRECATED_IN = {"endpoints": 33}
"""The first minor that warns about a stable API. All other warnings are older than the oldest minor here."""


@lru_cache(maxsize=256)
def minor_of(version: str) -> int:
    """Returns the minor of a version such as v1.34.2; an empty one is the server's. 0: the version is not supported."""
    if not version:
        return NEWEST_MINOR
    major, _, rest = version.removeprefix("v").partition(".")
    minor = rest.partition(".")[0]
    return int(minor) if major == "1" and minor.isdecimal() and OLDEST_MINOR <= int(minor) <= NEWEST_MINOR else 0


def is_served(minor: int, name: str) -> bool:
    """Reports whether the minor has a stable API, named `plural.group`, or `plural/subresource` in the core group."""
    return INTRODUCED_IN.get(name, 0) <= minor


def is_deprecated(minor: int, name: str) -> bool:
    return DEPRECATED_IN.get(name, 0) <= minor


def version_error(desired: str, current: str | None) -> Cause | None:
    """Returns why a cluster cannot have the version. `current` is its version, None for a new cluster."""
    minor = minor_of(desired)
    if not minor:
        return not_supported("spec.version", desired, SUPPORTED_VERSIONS)
    if current is not None and minor < minor_of(current):
        return forbidden_field(
            "spec.version", f"a cluster cannot be downgraded from {current or KUBERNETES_VERSION} to {desired}"
        )
    return None


def validate_logical_cluster(obj: Object, old: Object | None) -> list[Cause]:
    error = (
        version_error(_version(obj), _version(old) if old is not None else None) if _version_changed(obj, old) else None
    )
    return [error] if error is not None else []


def validate_hosted_version(obj: Object, old: Object | None) -> list[Cause]:
    """Validates the version of a kind that requests a hosted cluster. With an empty version the actual one is not known
    here.
    """
    desired, current = _version(obj), _version(old or {})
    if (
        not desired
        or (obj.get("spec") or {}).get("infrastructure", "embedded") != "embedded"
        or not _version_changed(obj, old)
    ):
        return []
    error = version_error(desired, current or None)
    return [error] if error is not None else []


def _version_changed(obj: Object, old: Object | None) -> bool:
    """An unchanged version is not validated again: it must not block other changes."""
    return old is None or _version(obj) != _version(old)


def _version(obj: Object) -> str:
    spec = obj.get("spec")
    return str(spec.get("version") or "") if isinstance(spec, dict) else ""
