"""The object of a bookmark: a revision up to which a watch has sent everything."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.response.negotiation import OutputMediaType


def bookmark(
    resource: Resource, output: OutputMediaType, revision: int, annotations: Mapping[str, str] | None
) -> dict[str, object]:
    """Returns it in the form in which the watch sends objects."""
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    obj: dict[str, object] = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    version = f"meta.k8s.io/{output.meta_version}"
    if output.mode == "partial":
        obj.update(kind="PartialObjectMetadata", apiVersion=version)
    elif output.mode == "table":
        row = {
            "cells": [],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata},
        }
        obj = {"kind": "Table", "apiVersion": version, "metadata": {"resourceVersion": str(revision)}}
        obj.update(columnDefinitions=None, rows=[row])
    return obj
