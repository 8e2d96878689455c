"""No part of a kubeconfig appears in a status, an event or a log."""

from __future__ import annotations

import base64
import logging

import pytest
import yaml

from shoal.assemble.server.remote_clients import connector_for
from shoal.assemble.storage.datadir import render_kubeconfig
from shoal.sync.controllers import SyncSettings
from shoal.sync.remote_cluster import KubeconfigText, NoKubeconfig
from tests.serving import Server, fresh_cluster
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import IMPORTS, NEGOTIATED, WORKLOAD_CLUSTERS, Object, workload_cluster
from tests.sync.test_apis import ready, told

SECRET = "s3cr3t-t0ken-of-nobody-else"


def config(server: str = "https://127.0.0.1:1", **user: str) -> Object:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {"token": SECRET}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


BROKEN = {
    "not-yaml": f"users: [{{user: {{token: {SECRET}}}}}\n  broken: [",
    "not-a-kubeconfig": SECRET,
    "no-https": yaml.safe_dump(config(f"http://user:{SECRET}@host")),
    "a-file": yaml.safe_dump(config(**{"tokenFile": f"/run/{SECRET}"})),
    "a-program": yaml.safe_dump({**config(), "users": [{"name": "u", "user": {"exec": {"command": SECRET}}}]}),
    "a-key": yaml.safe_dump(config(**{"client-certificate-data": SECRET, "client-key-data": SECRET})),
    "unreachable": yaml.safe_dump(config()),
}

BY_SECRET = ("not-yaml", "unreachable", "good")


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "unreachable"])
def test_what_is_wrong_with_a_kubeconfig_is_said_without_it(name: str) -> None:
    found = KubeconfigText(BROKEN[name])
    assert SECRET not in repr(found)
    with pytest.raises(NoKubeconfig) as raised:
        found.client(connector_for("https://elsewhere", None))  # type: ignore[arg-type]
    assert SECRET not in str(raised.value)


def test_nothing_that_is_written_has_a_word_of_one(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with own_hub(server, SyncSettings(("deployments.apps",))) as hub:
        member = fresh_cluster(server, profile="cluster")
        url = f"https://127.0.0.1:{server.port}{member.prefix}"
        good = render_kubeconfig(url, server.authority, server.token)
        for name, text in {**BROKEN, "good": good}.items():
            hub.post(WORKLOAD_CLUSTERS, workload_cluster(f"inline-{name}", {"kubeconfig": text})).ok()
            if name not in BY_SECRET:
                continue
            secret = {"metadata": {"name": name}, "data": {"value": base64.b64encode(text.encode()).decode()}}
            hub.post("/api/v1/namespaces/default/secrets", secret).ok()
            reference = {"kubeconfigSecretRef": {"namespace": "default", "name": name}}
            hub.post(WORKLOAD_CLUSTERS, workload_cluster(f"by-{name}", reference)).ok()
        for name in [*(f"inline-{name}" for name in BROKEN), *(f"by-{name}" for name in BY_SECRET if name != "good")]:
            told(hub, f"{WORKLOAD_CLUSTERS}/{name}", "APIImporterReady", "False")
            told(hub, f"{WORKLOAD_CLUSTERS}/{name}", "HeartbeatHealthy", "False")
        for name in ("inline-good", "by-good"):
            ready(hub, name)
        said = [str(each.get("status")) for each in hub.get(WORKLOAD_CLUSTERS).ok()["items"]]
        said += [str(each) for path in (IMPORTS, NEGOTIATED) for each in hub.get(path).ok()["items"]]
        said += [hub.get("/api/v1/events").body.decode(), caplog.text]
        secrets = [SECRET, base64.b64encode(SECRET.encode()).decode(), server.token, "BEGIN CERTIFICATE"]
        assert [(secret, text[:200]) for secret in secrets for text in said if secret in text] == []
        member.close()
