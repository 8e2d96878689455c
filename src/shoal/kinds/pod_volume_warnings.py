"""Warnings about valid volumes: deprecated sources and overlapping paths. Upstream's words; pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]

_OUT_OF_USE = {
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
_SPELLED = {"storageos": "storageOS"}


def volume_warnings(volumes: list[Object], path: str) -> list[str]:
    told = []
    for i, volume in enumerate(volumes):
        told += source_warnings(volume, f"{path}[{i}]")
        claim = ((volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {}).get("spec")
        if claim:
            told += claim_warnings(claim, f"{path}[{i}].ephemeral.volumeClaimTemplate.spec")
    for volume in volumes:
        told += _overlaps(volume)
    return told


def source_warnings(volume: Object, path: str, *silent: str) -> list[str]:
    if _OUT_OF_USE.keys().isdisjoint(volume):
        return []
    return [
        f"{path}.{_SPELLED.get(kind, kind)}: {why}"
        for kind, why in _OUT_OF_USE.items()
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


def _overlaps(volume: Object) -> list[str]:
    name = volume.get("name") or ""
    for kind, title, key in (("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")):
        source = volume.get(kind)
        if source and source.get("items"):
            return _clashes(name, f'{title} "{source.get(key) or ""}"', [(i.get("path"), "") for i in source["items"]])
    if (volume.get("downwardAPI") or {}).get("items"):
        return _clashes(name, "DownwardAPI", [(item.get("path"), "") for item in volume["downwardAPI"]["items"]])
    sources = (volume.get("projected") or {}).get("sources") or ()
    told = [f'volume "{name}" (Projected) has no sources provided' for source in sources if not source]
    return (
        told + _clashes(name, "Projected", [each for source in sources for each in _paths(source)]) if sources else []
    )


def _paths(source: Object) -> list[tuple[str | None, str]]:
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


def _clashes(name: str, title: str, paths: list[tuple[str | None, str]]) -> list[str]:
    told: list[str] = []
    seen: list[tuple[str, str]] = []
    for path, source in paths:
        bare = (path or "").rstrip("/")
        for other in seen if bare else ():
            if f"{other[0]}/".startswith(f"{bare}/") or f"{bare}/".startswith(f"{other[0]}/"):
                both = f"{_said(bare, source)} with {_said(*other)}"
                told.append(f'volume "{name}" ({title}): overlapping paths: {both}')
        if bare:
            seen.append((bare, source))
    return told


def _said(path: str, source: str) -> str:
    return f'"{path}" ({source})' if source else f'"{path}"'
