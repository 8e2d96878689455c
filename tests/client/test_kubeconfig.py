"""Building a client from a kubeconfig file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.client.kubeconfig import KubeconfigError, load
from shoal.client.rest import GroupVersionResource
from tests.serving import Cluster

SPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)


def written(path: Path, **user: Any) -> Path:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://example.com"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_written_kubeconfig_works(cluster: Cluster, tmp_path: Path) -> None:
    path = cluster.kubeconfig(tmp_path / "config")
    assert path.stat().st_mode & 0o777 == 0o600

    async def run() -> None:
        client = load(path)
        try:
            found = await client.get(SPACES, "default")
            assert found["metadata"]["uid"] == cluster.get("/api/v1/namespaces/default").ok()["metadata"]["uid"]
        finally:
            await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("plugin", ["exec", "auth-provider"])
def test_plugins_are_refused_by_name(tmp_path: Path, plugin: str) -> None:
    path = written(tmp_path / "config", **{plugin: {"command": "x"}})
    with pytest.raises(KubeconfigError, match=f"users with {plugin} are not supported"):
        load(path)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "config", token="t")
    with pytest.raises(KubeconfigError, match="has no context named 'other'"):
        load(path, "other")
    with pytest.raises(KubeconfigError, match="cannot be read"):
        load(tmp_path / "absent")
    (tmp_path / "text").write_text("just text")
    with pytest.raises(KubeconfigError, match="is not a kubeconfig"):
        load(tmp_path / "text")


def test_only_https(tmp_path: Path) -> None:
    path = written(tmp_path / "config", token="t")
    path.write_text(path.read_text().replace("https://", "http://"))
    with pytest.raises(KubeconfigError, match="the server must be an https URL"):
        load(path)


@pytest.mark.parametrize("authority", ["A", "w6Q=", "bm8gY2VydGlmaWNhdGU="])
def test_a_certificate_that_is_none_is_told(tmp_path: Path, authority: str) -> None:
    """Not base64, not ASCII, not PEM."""
    path = written(tmp_path / "config", token="t")
    config = yaml.safe_load(path.read_text())
    config["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(KubeconfigError, match="a certificate, key or token in it cannot be read"):
        load(path)
