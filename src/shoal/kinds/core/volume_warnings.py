"""Warnings about valid volumes: deprecated sources and overlapping paths. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_DEPRECATED_SOURCES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_PRINTED_NAMES = {"storageos": "storageOS"}


def volume_warnings(volumes: list[Object], path: str) -> list[str]:
    warnings = []
    for i, volume in enumerate(volumes):
        warnings += source_warnings(volume, f"{path}[{i}]")
        claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
        if claim:
            warnings += claim_warnings(claim, f"{path}[{i}].ephemeral.volumeClaimTemplate.spec")
    for volume in volumes:
        warnings += _overlap_warnings(volume)
    return warnings


def source_warnings(volume: Object, path: str, *silent: str) -> list[str]:
    if _DEPRECATED_SOURCES.keys().isdisjoint(volume):
        return []
    return [
        f"{path}.{_PRINTED_NAMES.get(kind, kind)}: {notice}"
        for kind, notice in _DEPRECATED_SOURCES.items()
        if volume.get(kind) is not None and kind not in silent
    ]


def claim_warnings(spec: Object, path: str) -> list[str]:
    """Warns of fractional bytes in a PersistentVolumeClaim. Quantities are defaulted already."""
    resources = spec.get("resources") or {}
    return [
        f'{path}.resources.{field}[storage]: fractional byte value "{value}" is invalid, must be an integer'
        for field in ("requests", "limits")
        if isinstance(value := (resources.get(field) or {}).get("storage"), str) and value.endswith("m")
    ]


def _overlap_warnings(volume: Object) -> list[str]:
    name = volume.get("name") or ""
    for kind, title, key in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        source = volume.get(kind)
        if source and source.get("items"):
            return _path_conflict_warnings(
                name, f'{title} "{source.get(key) or ""}"', [(i.get("path"), "") for i in source["items"]]
            )
    if (volume.get("downwardAPI") or {}).get("items"):
        return _path_conflict_warnings(
            name, "DownwardAPI", [(item.get("path"), "") for item in volume["downwardAPI"]["items"]]
        )
    sources = (volume.get("projected") or {}).get("sources") or ()
    warnings = [f'volume "{name}" (Projected) has no sources provided' for source in sources if not source]
    return (
        warnings
        + _path_conflict_warnings(name, "Projected", [each for source in sources for each in _projected_paths(source)])
        if sources
        else []
    )


def _projected_paths(source: Object) -> list[tuple[str | None, str]]:
    """Returns the paths of a projection, each with a description of its source."""
    for kind, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        inner = source.get(kind)
        if inner and inner.get("items"):
            return [(item.get("path"), f'{title} "{inner.get("name") or ""}"') for item in inner["items"]]
    if (source.get("downwardAPI") or {}).get("items"):
        return [(item.get("path"), "DownwardAPI") for item in source["downwardAPI"]["items"]]
    token, bundle, certificate = (
        source.get(kind) for kind in ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
    )
    if token is not None:
        return [(token.get("path"), "ServiceAccountToken")]
    if bundle is not None:
        return [(bundle.get("path"), f'ClusterTrustBundle "{bundle.get("name") or bundle.get("signerName") or ""}"')]
    return (
        [
            (certificate.get(field), f"PodCertificate {title}")
            for field, title in (
                ("certificateChainPath", "chain"),
                ("keyPath", "key"),
                ("credentialBundlePath", "credential bundle"),
            )
            if certificate.get(field)
        ]
        if certificate
        else []
    )


def _path_conflict_warnings(name: str, title: str, paths: list[tuple[str | None, str]]) -> list[str]:
    warnings: list[str] = []
    seen: list[tuple[str, str]] = []
    for path, source in paths:
        bare = (path or "").rstrip("/")
        for other in seen if bare else ():
            if f"{other[0]}/".startswith(f"{bare}/") or f"{bare}/".startswith(f"{other[0]}/"):
                both = f"{_quoted_path(bare, source)} with {_quoted_path(*other)}"
                warnings.append(f'volume "{name}" ({title}): overlapping paths: {both}')
        if bare:
            seen.append((bare, source))
    return warnings


def _quoted_path(path: str, source: str) -> str:
    return f'"{path}" ({source})' if source else f'"{path}"'
