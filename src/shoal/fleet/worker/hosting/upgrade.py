"""Decides the target versions of a ManagedCluster's control plane and nodes. Pure.

The control plane is upgraded first; its nodes follow when it runs the new version. A version that is not possible
changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds import fleet
from shoal.kinds.versions import problem

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """Empty: the server's own version."""

    control_plane: str
    nodes: str
    refused: str = ""
    """Why the requested version is not used."""


def versions(wanted: str, control_plane: Object | None) -> Versions:
    """`control_plane` is the EmbeddedCluster, if there is one."""
    if control_plane is None:
        return Versions(wanted, wanted)
    asked = str(fleet.spec_of(control_plane).get("version") or "")
    up, wanted = is_up(control_plane), wanted or asked
    refused = problem(wanted, asked if asked or up else None) if wanted != asked else None
    if refused is not None:
        wanted = asked
    runs = running_version(control_plane)
    return Versions(wanted, runs if up else wanted, refused.message if refused is not None else "")


def running_version(control_plane: Object | None) -> str:
    return str(fleet.status_of(control_plane or {}).get("version") or "")


def is_up(control_plane: Object) -> bool:
    return bool((fleet.status_of(control_plane).get("initialization") or {}).get("provisioned"))
