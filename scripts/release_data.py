"""Writes tests/packages/data/VERSION.tar.gz: a data directory as this release leaves it, and what is in it.

To be run once for a release, before it is tagged. The archives of older releases stay as they are: every later one
has to open them (docs/upgrading.md, tests/packages/test_upgrade.py).
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import secrets
import tarfile
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from shoal import __version__
from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings, StoreSettings
from shoal.client.rest import Client, GroupVersionResource
from shoal.objects.errors import StatusError

Object = dict[str, Any]
Known = tuple[Client, GroupVersionResource, str, str]
"""Where an object is, of what kind, its name and namespace."""

ROOT = Path(__file__).parent.parent
DIRECTORY = ROOT / "tests" / "packages" / "data"
LEFT_OUT = {"lock", ".lock", "port", "kubeconfig", "serving.json", "serving.pem"}
"""Of that process and machine."""
TEAM, HOSTED = "team", "default.east"

NAMESPACES, CONFIG_MAPS, SECRETS = (
    GroupVersionResource("", "v1", "namespaces"),
    GroupVersionResource("", "v1", "configmaps"),
    GroupVersionResource("", "v1", "secrets"),
)
ACCOUNTS, LEASES = (
    GroupVersionResource("", "v1", "serviceaccounts"),
    GroupVersionResource("coordination.k8s.io", "v1", "leases"),
)
ROLES, BINDINGS = (
    GroupVersionResource("rbac.authorization.k8s.io", "v1", plural) for plural in ("roles", "rolebindings")
)
DEFINITIONS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
WIDGETS = GroupVersionResource("example.com", "v1", "widgets")
LOGICAL_CLUSTERS = GroupVersionResource("core.shoal.dev", "v1alpha1", "logicalclusters")
MANAGED = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters")
WORKERS = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "workers")
PLACEMENTS = GroupVersionResource("placement.shoal.dev", "v1alpha1", "placements")
DEPLOYMENTS = GroupVersionResource("apps", "v1", "deployments")


async def fill(up: HubWithWorkers) -> list[Object]:
    """Makes a small fleet; what is to be found in it later, as it is in the end."""
    root, worker = up.hub.client("release-data"), up.workers[0].shoal.client("release-data")
    still = await _create_static_objects(root)
    await root.create(MANAGED, _own("ManagedCluster", MANAGED, "east", {"nodes": 1}), "default")
    spec = {"selects": [{"kind": "ConfigMap", "name": "settings"}], "priority": 10}
    await root.create(PLACEMENTS, _own("Placement", PLACEMENTS, "everywhere", spec), "default")
    await _until(lambda: _is_running(root))
    await _until(lambda: _make(root, DEPLOYMENTS, _deployment(), "default"))
    await _until(lambda: _is_ready(root))
    await up.hub._controllers.stop()
    found = [await _expected_record("hub", *each, still=True) for each in still]
    moving: list[Known] = [
        (root, LOGICAL_CLUSTERS, TEAM, ""),
        (root, MANAGED, "east", "default"),
        (root, PLACEMENTS, "everywhere", "default"),
        (root, WORKERS, "worker-1", "shoal-system"),
        (root, DEPLOYMENTS, "web", "default"),
    ]
    found += [await _expected_record("hub", *each, still=False) for each in moving]
    return [*found, await _expected_record("worker-1", worker, LOGICAL_CLUSTERS, HOSTED, "", still=False)]


async def _create_static_objects(root: Client) -> list[Known]:
    """What no loop writes."""
    team = root.in_cluster(TEAM)
    definition = yaml.safe_load((ROOT / "examples" / "widget-crd.yaml").read_text())
    await root.create(LOGICAL_CLUSTERS, _own("LogicalCluster", LOGICAL_CLUSTERS, TEAM, {"profile": "cluster"}))
    made: list[tuple[Client, GroupVersionResource, Object, str]] = [
        (root, NAMESPACES, {"metadata": {"name": "shop"}}, ""),
        (
            root,
            CONFIG_MAPS,
            {"metadata": {"name": "settings", "labels": {"a": "b"}}, "data": {"greeting": "grüß dich"}},
            "shop",
        ),
        (root, SECRETS, {"metadata": {"name": "word"}, "stringData": {"password": "kept"}}, "shop"),
        (root, ACCOUNTS, {"metadata": {"name": "robot"}}, "shop"),
        (root, ROLES, {"metadata": {"name": "reader"}, "rules": [_rule()]}, "shop"),
        (root, BINDINGS, {"metadata": {"name": "reader"}, **_role_binding_fields()}, "shop"),
        (root, LEASES, {"metadata": {"name": "turn"}, "spec": {"holderIdentity": "me"}}, "shop"),
        (root, DEFINITIONS, definition, ""),
        (team, CONFIG_MAPS, {"metadata": {"name": "theirs"}, "data": {"whose": "the team's"}}, "default"),
    ]
    for client, kind, obj, namespace in made:
        await client.create(kind, obj, namespace)
    widgets = list(yaml.safe_load_all((ROOT / "examples" / "widgets.yaml").read_text()))
    for widget in widgets:
        await _until(partial(_make, root, WIDGETS, widget, "shop"))
        made.append((root, WIDGETS, widget, "shop"))
    return [(client, kind, obj["metadata"]["name"], namespace) for client, kind, obj, namespace in made]


def _own(name_of_kind: str, kind: GroupVersionResource, name: str, spec: Object) -> Object:
    api_version = f"{kind.group}/{kind.version}"
    return {"apiVersion": api_version, "kind": name_of_kind, "metadata": {"name": name}, "spec": spec}


def _rule() -> Object:
    return {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}


def _role_binding_fields() -> Object:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    return {"roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "shop"}]}


def _deployment() -> Object:
    deployment: Object = yaml.safe_load((ROOT / "examples" / "deployment.yaml").read_text())
    deployment["spec"]["replicas"] = 2
    return deployment


async def _make(client: Client, kind: GroupVersionResource, obj: Object, namespace: str) -> bool:
    try:
        await client.create(kind, {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}, namespace)
    except StatusError as error:
        if error.status_code != 404:
            raise
        return False  # the kind is not served yet
    return True


async def _is_running(root: Client) -> bool:
    found = await root.get(MANAGED, "east", "default")
    return bool((found.get("status") or {}).get("phase") == "Running")


async def _is_ready(root: Client) -> bool:
    found = await root.get(DEPLOYMENTS, "web", "default")
    return bool((found.get("status") or {}).get("readyReplicas") == 2)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110  a script
        await asyncio.sleep(0.1)


async def _expected_record(
    server: str, client: Client, kind: GroupVersionResource, name: str, namespace: str, *, still: bool
) -> Object:
    """`still`: nobody writes it, so it is byte for byte what it was."""
    obj = await client.get(kind, name, namespace)
    return {"server": server, "path": client.resource_path(kind, name, namespace), "still": still, "object": obj}


async def run(directory: Path) -> None:
    data, keys = directory / "data", directory / "keys"
    keys.touch(0o600)
    keys.write_text(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
    settings = ShoalServerSettings(data, port=0, store=StoreSettings(encryption_key_file=str(keys)))
    up = await HubWithWorkers.start(settings, InProcessWorkers(1, 10))
    try:
        objects = await fill(up)
        revisions = {"data": up.hub.store.revision, "data/workers/worker-1": up.workers[0].shoal.store.revision}
    finally:
        await up.stop()
    text = json.dumps({"version": __version__, "revisions": revisions, "objects": objects}, indent=1)
    (directory / "expected.json").write_text(text + "\n")


def pack(directory: Path, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and path.name not in LEFT_OUT:
                archive.add(path, str(path.relative_to(directory)), filter=_nobody)
    file.write_bytes(gzip.compress(held.getvalue(), 9, mtime=0))


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    file = DIRECTORY / f"{__version__}.tar.gz"
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))
        pack(Path(directory), file)
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
