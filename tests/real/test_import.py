"""All APIs of a real kube-apiserver, learned by a hub: kubectl applies a Deployment there twice (decision 9)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from shoal.sync.controllers import SyncSettings
from tests.apiserver.test_every_kind import KINDS, paths, sample
from tests.real.hubs import KubectlAt
from tests.real.kubernetes import Kubernetes, needs_kubernetes
from tests.real.programs import Kubectl, definition, kubectls, manifest
from tests.serving import WIDGETS, Cluster, Server, fresh_cluster
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import IMPORTS, SCHEMAS, WORKLOAD_CLUSTERS, condition, deployment, workload_cluster
from tests.sync.test_apis import ready, register

Object = dict[str, Any]


def kubeconfig(real: Kubernetes) -> str:
    authority = base64.b64encode((real.directory / "certs" / "apiserver.crt").read_bytes()).decode()
    text = real.kubeconfig.read_text()
    return text.replace("certificate-authority: certs/apiserver.crt", f"certificate-authority-data: {authority}")


def imports(hub: Cluster) -> dict[str, Object]:
    found = hub.get(IMPORTS).ok()["items"]
    return {each["spec"]["plural"]: each for each in found if each["spec"]["location"] == "real"}


def _written(folder: Path) -> Path:
    file = folder / "widgets.yaml"
    file.write_text(manifest(definition()))
    return file


@needs_kubernetes
@pytest.mark.skipif(not kubectls(), reason="kubectl")
def test_everything_a_real_cluster_serves(server: Server, tmp_path: Path) -> None:
    title, program = list(kubectls().items())[-1]
    with Kubernetes(tmp_path / "kubernetes") as real, own_hub(server, SyncSettings(("*",))) as hub:
        real.start()
        # A cluster of Shoal was there before, and what it has is published: the real one fits.
        hosted = fresh_cluster(server, profile="cluster")
        register(hub, hosted, "hosted")
        ready(hub, "hosted")
        hub.post(WORKLOAD_CLUSTERS, workload_cluster("real", {"kubeconfig": kubeconfig(real)})).ok()
        assert condition(ready(hub, "real"), "APIImporterReady")["message"] == ""
        found = imports(hub)
        assert {"deployments", "jobs", "pods", "services", "ingresses", "networkpolicies", "storageclasses"} <= set(
            found
        )
        refused = {name: condition(each, "Compatible") for name, each in found.items()}
        assert {name: said for name, said in refused.items() if said["status"] != "True"} == {}
        unserved = {name: condition(each, "Available") for name, each in found.items()}
        assert {name: said for name, said in unserved.items() if said["status"] != "True"} == {}
        digests = {each["spec"]["schemaDigest"] for each in found.values()}
        assert digests <= {each["metadata"]["name"] for each in hub.get(SCHEMAS).ok()["items"]}
        assert "description" not in hub.get(SCHEMAS).body.decode().replace('"description":{', "")

        # The hub takes whatever a user would write of them.
        for builtin in KINDS:
            offered = found.get(builtin.plural, {}).get("spec", {}).get("groupVersion")
            if offered == {"group": builtin.group, "version": builtin.version}:
                hub.post(f"{paths(builtin)[0]}?dryRun=All&fieldValidation=Strict", sample(builtin)).ok()

        # A CRD comes, and the hub serves it without being asked again.
        KubectlAt(real.kubeconfig, tmp_path / "home")("create", "-f", str(_written(tmp_path)))
        hub.eventually(lambda: condition(imports(hub).get("widgets", {}), "Available").get("status") == "True")
        assert hub.get(WIDGETS).status == 200

        kubectl = Kubectl(program, title, hub, tmp_path)
        web = deployment("web")
        assert "created" in kubectl("apply", "-f", "-", given=web)
        web["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
        web["spec"]["replicas"] = 3
        assert "configured" in kubectl("apply", "-f", "-", given=web)
        assert "unchanged" in kubectl("apply", "-f", "-", given=web)
        made = kubectl.json("get", "deployment", "web")
        assert (made["spec"]["replicas"], made["spec"]["strategy"]["type"]) == (3, "RollingUpdate")
        assert "serverside-applied" in kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=web)
        kubectl("delete", "deployment", "web")
        hosted.close()
