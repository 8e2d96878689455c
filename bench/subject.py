"""What is read and written: one CustomResourceDefinition of twenty properties and objects of 3 KB."""

from __future__ import annotations

from typing import Any

import orjson

Object = dict[str, Any]

GROUP = "bench.example.com"
DEFINITION_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION_NAME = f"machines.{GROUP}"
SIZE = 3 * 1024
"""Bytes of an object as a client sends it; servers add metadata and managedFields."""
FIRST_SEQUENCE = 10**15
"""`spec.sequence` of a new object; updates count on from the time in microseconds, of as many digits."""

_TEXT = {"type": "string", "maxLength": 4096}
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = ("region", "zone", "image", "flavor", "network", "subnet", "hostname", "provider", "owner", "notes")
_COUNTS = ("cores", "memoryMiB", "diskGiB", "replicas")


def collection(namespace: str) -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/machines"


def definition() -> Object:
    names = {"kind": "Machine", "listKind": "MachineList", "plural": "machines", "singular": "machine"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _spec_schema()}, "required": ["spec"]}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION_NAME},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _spec_schema() -> Object:
    port = {
        "type": "object",
        "required": ["name", "port"],
        "properties": {
            "name": {"type": "string", "maxLength": 63},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "enum": ["TCP", "UDP"], "default": "TCP"},
        },
    }
    properties = {
        **dict.fromkeys(_TEXTS, _TEXT),
        **dict.fromkeys(_COUNTS, _COUNT),
        "sequence": _COUNT,
        "paused": {"type": "boolean", "default": False},
        "policy": {"type": "string", "enum": ["Always", "OnFailure", "Never"]},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "addresses": {"type": "array", "maxItems": 64, "items": {"type": "string", "pattern": r"^\d+\.\d+\.\d+\.\d+$"}},
        "ports": {
            "type": "array",
            "maxItems": 64,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": port,
        },
    }
    return {"type": "object", "required": ["region", "image", "cores"], "properties": properties}


def machine(namespace: str, name: str, sequence: int = FIRST_SEQUENCE, version: str = "") -> Object:
    """Filled up with words in `spec.notes` to exactly SIZE bytes (without a resourceVersion)."""
    spec: Object = {text: f"{text}-of-some-machine" for text in _TEXTS}
    spec |= {count: 16 + index for index, count in enumerate(_COUNTS)}
    spec |= {"sequence": sequence, "paused": False, "policy": "Always"}
    spec["tags"] = {f"tag-{index}": f"value number {index}" for index in range(8)}
    spec["addresses"] = [f"10.0.{index}.{index + 7}" for index in range(12)]
    spec["ports"] = [{"name": f"port-{index}", "port": 8000 + index, "protocol": "TCP"} for index in range(8)]
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "bench", "tier": "backend"}}
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "Machine", "metadata": metadata, "spec": spec}
    missing = SIZE - len(orjson.dumps(obj))
    spec["notes"] += "".join(f" word{index}" for index in range(missing // 5))[:missing]
    if version:
        metadata["resourceVersion"] = version
    return obj
