"""Commands look into hosted clusters as their user, and into others with the kubeconfig of the hub."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.assemble.commands.cluster_clients import hosted_origin

Object = dict[str, Any]


def cluster(label: str, namespace: str, secret: str) -> Object:
    labels = {"shoal.dev/managedcluster": label} if label else {}
    reference = {"namespace": namespace, "name": secret, "key": "value"}
    return {"metadata": {"name": "x", "labels": labels}, "spec": {"kubeconfigSecretRef": reference}}


@pytest.mark.parametrize(
    ("obj", "origin"),
    [
        (cluster("default.east", "default", "east-kubeconfig"), ("default", "east")),
        (cluster("", "default", "east-kubeconfig"), None),
        (cluster("default.west", "default", "east-kubeconfig"), None),
        (cluster("default.east", "other", "east-kubeconfig"), None),
        (cluster("default.east", "default", "east"), None),
        ({"metadata": {"labels": {"shoal.dev/managedcluster": "default.east"}}, "spec": {"kubeconfig": "x"}}, None),
    ],
)
def test_which_clusters_are_hosted(obj: Object, origin: tuple[str, str] | None) -> None:
    assert hosted_origin(obj) == origin
