"""Tests that no controller mutates an object of a shared informer: other controllers would take it for the API's
state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.client.rest import Client, GroupVersionResource
from tests.controlplane.world import World, world
from tests.frozen import Changed, FrozenDict, freeze_shared, frozen

Object = dict[str, Any]

NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")
APPS = {name: GroupVersionResource("apps", "v1", name) for name in ("deployments", "statefulsets", "daemonsets")}
JOBS, CRON_JOBS = GroupVersionResource("batch", "v1", "jobs"), GroupVersionResource("batch", "v1", "cronjobs")
SERVICES, BUDGETS = (
    GroupVersionResource("", "v1", "services"),
    GroupVersionResource("policy", "v1", "poddisruptionbudgets"),
)
CLAIMS = GroupVersionResource("", "v1", "persistentvolumeclaims")
QUOTAS, SECRETS = GroupVersionResource("", "v1", "resourcequotas"), GroupVersionResource("", "v1", "secrets")
TOKEN_TYPE = "kubernetes.io/service-account-token"


def template(app: str, **spec: object) -> Object:
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}


def workload(name: str, **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}}, **spec}}


async def everything(client: Client) -> None:
    for number in range(3):
        await client.create(NODES, {"metadata": {"name": f"n{number}", "labels": {"shoal.dev/simulated": "true"}}})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    token = {"name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}}
    for kind, obj in (
        (QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "99", "secrets": "9"}}}),
        (SECRETS, {"metadata": token, "type": TOKEN_TYPE}),
        (SERVICES, {"metadata": {"name": "s"}, "spec": {"selector": {"app": "d"}, "ports": [{"port": 80}]}}),
        (BUDGETS, workload("d", minAvailable=1)),
        (APPS["deployments"], workload("d", replicas=3, template=template("d"))),
        (APPS["daemonsets"], workload("e", template=template("e"))),
        (
            APPS["statefulsets"],
            workload(
                "f",
                replicas=2,
                serviceName="s",
                template=template("f"),
                volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": claim}],
            ),
        ),
        (JOBS, {"metadata": {"name": "g"}, "spec": {"template": template("g", restartPolicy="Never")}}),
        (
            CRON_JOBS,
            {
                "metadata": {"name": "h"},
                "spec": {
                    "schedule": "* * * * *",
                    "jobTemplate": {"spec": {"template": template("h", restartPolicy="OnFailure")}},
                },
            },
        ),
    ):
        await client.create(kind, obj, "default")


def ready(client: Client, app: str, count: int) -> Any:
    async def look() -> bool:
        found, _ = await client.list_all(PODS, "default", labels=f"app={app}")
        return sum((pod.get("status") or {}).get("phase") in ("Running", "Succeeded") for pod in found) == count

    return look


def rolled_out(client: Client, name: str, count: int) -> Any:
    async def look() -> bool:
        status = (await client.get(APPS["deployments"], name, "default")).get("status") or {}
        return all(status.get(f"{kind}eplicas") == count for kind in ("r", "updatedR", "availableR"))

    return look


@pytest.mark.anyio
async def test_no_loop_changes_what_it_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    freeze_shared(monkeypatch)
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await everything(client)
        await _through_their_lives(given, client)
    assert "shares with others" not in caplog.text
    assert "Traceback" not in caplog.text


async def _through_their_lives(given: World, client: Client) -> None:
    for app, count in (("d", 3), ("e", 3), ("f", 2)):
        await given.eventually(ready(client, app, count))
    given.clock.step(61)
    await given.eventually(ready(client, "g", 1))
    await given.eventually(ready(client, "h", 1))
    image = [{"name": "c", "image": "x:2"}]
    await client.merge_patch(
        APPS["deployments"], "d", {"spec": {"replicas": 4, "template": {"spec": {"containers": image}}}}, "default"
    )
    await client.delete(NODES, "n0")
    given.clock.step(1)
    await given.eventually(ready(client, "e", 2))
    await given.eventually(ready(client, "d", 4))
    # On this clock nobody tries again what failed: the rollout must not be in the way of the deletion.
    await given.eventually(rolled_out(client, "d", 4))
    await client.delete_all(APPS["deployments"], "default")
    await given.eventually(ready(client, "d", 0))


def test_what_is_frozen_cannot_be_changed() -> None:
    obj = frozen({"a": [{"b": 1}]})
    assert isinstance(obj, FrozenDict)
    assert obj == {"a": [{"b": 1}]}
    assert obj.pop("missing", None) is None
    with pytest.raises(Changed, match="shares with others"):
        obj["a"][0].update(b=2)
    with pytest.raises(Changed, match="shares with others"):
        obj["a"].append(1)
    with pytest.raises(Changed, match="shares with others"):
        obj.pop("a")
