"""The kubeconfig of a hosted cluster as the hub publishes it. Pure."""

from __future__ import annotations

import base64
from typing import Any

import yaml

Object = dict[str, Any]


def hub_kubeconfig(secret: Object, name: str, server: str, ca: str) -> str:
    """Returns the provider's kubeconfig with the hub's stable address as server. Raises ValueError if it is not a
    kubeconfig.
    """
    try:
        text = base64.b64decode((secret.get("data") or {})["value"], validate=True)
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        (user,) = (user["user"] for user in config["users"])
    except (KeyError, TypeError, ValueError, yaml.YAMLError):
        raise ValueError(f"Secret {secret['metadata']['name']} holds no kubeconfig with one user") from None
    cluster = {"server": server}
    if ca:
        cluster["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    context = {"cluster": name, "user": f"{name}-admin"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "users": [{"name": f"{name}-admin", "user": user}],
    }
    return str(yaml.dump(kubeconfig, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))
