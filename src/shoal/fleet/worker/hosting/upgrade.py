"""Decides the target versions of a ManagedCluster's control plane and nodes. Pure.

The control plane is upgraded first; its nodes follow when it runs the new version. A version that is not possible
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds.fleet import infrav1
from shoal.kinds.versions import version_error

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TargetVersions:
    """Empty: the server's own version."""

    control_plane: str
    nodes: str
    version_error: str = ""
    """Why the requested version is not used."""


def target_versions(desired: str, control_plane: Object | None) -> TargetVersions:
    """`control_plane` is the EmbeddedCluster, if there is one."""
    if control_plane is None:
        return TargetVersions(desired, desired)
    current = str(infrav1.spec_of(control_plane).get("version") or "")
    provisioned, desired = is_control_plane_provisioned(control_plane), desired or current
    version_problem = (
        version_error(desired, current if current or provisioned else None) if desired != current else None
    )
    if version_problem is not None:
        desired = current
    running = running_version(control_plane)
    return TargetVersions(
        desired, running if provisioned else desired, version_problem.message if version_problem is not None else ""
    )


def running_version(control_plane: Object | None) -> str:
    return str(infrav1.status_of(control_plane or {}).get("version") or "")


def is_control_plane_provisioned(control_plane: Object) -> bool:
    return bool((infrav1.status_of(control_plane).get("initialization") or {}).get("provisioned"))
