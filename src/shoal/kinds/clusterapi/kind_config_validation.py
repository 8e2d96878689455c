"""Checks the mounts and patches of a KINDCluster that kind would reject later, or misread. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

MAX_PATCH = 1 << 16
"""Characters of one patch."""
PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")
"""The first is kind's default."""


def config_error(spec: Mapping[str, Any]) -> str:
    """Returns the first error; empty: there is none."""
    return next(_errors(spec), "")


def _errors(spec: Mapping[str, Any]) -> Iterator[str]:
    config = spec.get("config") or {}
    for field in ("containerdConfigPatches", "containerdConfigPatchesJSON6902", "kubeadmConfigPatches"):
        patches = config.get(field) or []
        path = f"spec.config.{field}"
        if not isinstance(patches, list) or not all(isinstance(patch, str) for patch in patches):
            yield f"{path} has to be a list of strings"
        elif field == "containerdConfigPatches":
            yield from _toml_errors(path, patches)
    for path, nodes in (("spec.nodes", spec.get("nodes")), ("spec.config.nodes", config.get("nodes"))):
        for number, node in enumerate(nodes or ()):
            yield from _mount_errors(f"{path}[{number}].extraMounts", node.get("extraMounts") or [])


def _toml_errors(path: str, patches: list[str]) -> Iterator[str]:
    for number, patch in enumerate(patches):
        if len(patch) > MAX_PATCH:
            yield f"{path}[{number}] has more than {MAX_PATCH} characters"
            return
        try:
            tomllib.loads(patch)
        except tomllib.TOMLDecodeError as error:
            yield f"{path}[{number}] is not TOML: {error}"
        except RecursionError:
            yield f"{path}[{number}] is not TOML: it is nested too deeply"


def _mount_errors(path: str, mounts: Any) -> Iterator[str]:
    if not isinstance(mounts, list) or not all(isinstance(mount, dict) for mount in mounts):
        yield f"{path} has to be a list of objects"
        return
    targets = set()
    for number, mount in enumerate(mounts):
        for field in ("hostPath", "containerPath"):
            value = mount.get(field)
            if not isinstance(value, str) or not value.startswith("/"):
                yield f"{path}[{number}].{field} has to be an absolute path, not {value!r}"
                return
            if ":" in value:
                yield f"{path}[{number}].{field} must not contain a colon: {value!r}"
                return
        if mount["containerPath"] in targets:
            yield f"{path}[{number}].containerPath {mount['containerPath']!r} is mounted twice in this node"
        targets.add(mount["containerPath"])
        if (mount.get("propagation") or PROPAGATIONS[0]) not in PROPAGATIONS:
            yield f"{path}[{number}].propagation has to be one of {', '.join(PROPAGATIONS)}"
