"""Machine templates that the hosted clusters of a namespace share: a cluster that moves has them at its new worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shoal.client.rest import GroupVersionResource
from shoal.fleet.worker.cluster_keys import TEMPLATES_PREFIX
from shoal.fleet.worker.cluster_storage import ClusterContents, StoreChange
from shoal.fleet.worker.replication.log import ClusterLog
from shoal.fleet.worker.replication.segments import LogCorrupted, ReplayedState, encode_record, replay_log
from shoal.fleet.worker.restore.decide import adapt_templates
from shoal.kinds.fleet import migration
from tests.fleet.worker.fleets import CONFIG_MAPS, Fleet, config_map, fleet, phase

Object = dict[str, Any]

TEMPLATES = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "embeddedmachinetemplates")
EAST: Object = {"labels": {"cluster.x-k8s.io/cluster-name": "east"}}
WEST: Object = {"labels": {"cluster.x-k8s.io/cluster-name": "west"}}
OWNED_BY_WEST: Object = {
    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "west"}]
}


def machine_template(name: str, cpu: str = "1", **metadata: Any) -> Object:
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "EmbeddedMachineTemplate",
        "metadata": {"name": name, **metadata},
        "spec": {"template": {"spec": {"capacity": {"cpu": cpu}}}},
    }


async def own_templates(made: Fleet, worker: str) -> dict[str, str]:
    """Capacity by name, without the templates of node pools."""
    found, _ = await made.root(worker).list_all(TEMPLATES, "default")
    capacities = {each["metadata"]["name"]: each["spec"]["template"]["spec"]["capacity"]["cpu"] for each in found}
    return {name: cpu for name, cpu in capacities.items() if not name.startswith("east-")}


@pytest.mark.anyio
async def test_they_are_copied(tmp_path: Path) -> None:
    async with fleet(tmp_path, "w1", "w2") as made:
        w1, w2 = made.root("w1"), made.root("w2")
        for name in ("before", "claimed", "deleted"):
            await w1.create(TEMPLATES, machine_template(name), "default")
        await made.create("w1", nodes=1, onWorkerLost="Move")
        await made.backed_up("w1")
        offers = await w1.create(CONFIG_MAPS, config_map("offers"), "default")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "offers", "uid": offers["metadata"]["uid"]}
        await w1.create(TEMPLATES, machine_template("after", ownerReferences=[owner], finalizers=["x/y"]), "default")
        await w1.create(TEMPLATES, machine_template("both"), "default")
        await w1.create(TEMPLATES, machine_template("west", **WEST), "default")
        await w1.create(TEMPLATES, machine_template("released", **EAST), "default")
        await w1.merge_patch(TEMPLATES, "released", {"metadata": {"labels": None}}, "default")
        await w1.merge_patch(TEMPLATES, "claimed", {"metadata": WEST}, "default")
        await w1.delete(TEMPLATES, "deleted", "default")
        await w2.create(TEMPLATES, machine_template("both", cpu="8"), "default")
        before = await own_templates(made, "w1")
        await made.backed_up("w1")
        await made.move("w2")
        await made.until(lambda obj: phase(obj) == "Running" and obj["status"]["assignedWorker"] == "w2")

        assert await own_templates(made, "w2") == {"before": "1", "after": "1", "both": "8", "released": "1"}
        copied = (await w2.get(TEMPLATES, "after", "default"))["metadata"]
        assert not copied.keys() & {"ownerReferences", "finalizers"}, "those are of the other worker"
        await made.until(lambda obj: not migration.former_workers(obj))
        assert await own_templates(made, "w1") == before, "other clusters may use them"


def test_they_are_in_the_log() -> None:
    log = ClusterLog(1, 1)
    kept, gone, new = (f"{TEMPLATES_PREFIX}default/{name}" for name in ("kept", "gone", "new"))
    record = log.new_base(ClusterContents(5, {"a/b/c/d/e": b"{}"}, {kept: b"1", gone: b"2"}))
    base = encode_record(record, 1, 1)
    log.mark_written(log.encode_batch(record))
    log.add_changes((StoreChange("", gone, None, 6), StoreChange("", new, b"3", 7)))
    assert log.has_pending
    increment = log.new_increment()
    assert increment is not None
    assert not log.has_pending
    state = replay_log([*base, *encode_record(increment, 1, 2)], 1, 1, 7)
    assert (state.entries, state.templates) == ({"a/b/c/d/e": b"{}"}, {kept: b"1", new: b"3"})


@pytest.mark.parametrize(
    ("key", "template"),
    [
        (f"{TEMPLATES_PREFIX}other/big", machine_template("big", namespace="other", uid="u")),
        (f"{TEMPLATES_PREFIX}default/big", machine_template("big", namespace="other", uid="u")),
        (f"{TEMPLATES_PREFIX}default/big", machine_template("big", namespace="default", uid="u", **WEST)),
        (f"{TEMPLATES_PREFIX}default/big", machine_template("big", namespace="default", uid="u", **OWNED_BY_WEST)),
        (
            f"{TEMPLATES_PREFIX}default/big",
            machine_template("big", namespace="default", uid="u", deletionTimestamp="2026-01-01T00:00:00Z"),
        ),
        ("core/secrets/root/default/big", machine_template("big", namespace="default", uid="u")),
    ],
)
def test_a_worker_is_believed_about_shared_templates_only(key: str, template: Object) -> None:
    state = ReplayedState(9, {}, (), 6, {key: orjson.dumps(template)})
    with pytest.raises(LogCorrupted, match="is not a machine template shared by this cluster"):
        adapt_templates(state, "default")
