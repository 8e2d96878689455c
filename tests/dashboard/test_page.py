"""The page's own program on a real hub, in node without a browser: login, permissions, and that it follows the API."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scripts.web import MODULES, WEB, CheckSkipped, differences, ensure_packages
from tests.serving import HANG, Cluster, running_server


@pytest.mark.real
def test_the_page_on_a_hub(tmp_path: Path) -> None:
    try:
        node = ensure_packages()
    except CheckSkipped as missing:
        pytest.skip(f"the dashboard's page ({missing})")
    with running_server() as server:
        root = Cluster(server, "root")
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        root.post(accounts, {"metadata": {"name": "stranger"}}).ok()
        (tmp_path / "ca.crt").write_bytes(server.authority)
        environment = {
            **os.environ,
            "SHOAL_URL": f"https://127.0.0.1:{server.port}",
            "SHOAL_CA": str(tmp_path / "ca.crt"),
            "SHOAL_TOKEN": server.token,
            "SHOAL_POOR_TOKEN": root.post(f"{accounts}/stranger/token", {"spec": {}}).ok()["status"]["token"],
            "SHOAL_KUBECONFIG": str(server.shoal.directory.path / "kubeconfig"),
        }
        command = [node, str(MODULES / "vitest" / "vitest.mjs"), "run", "test/hub.test.tsx"]
        run = subprocess.run(command, cwd=WEB, env=environment, capture_output=True, text=True, timeout=5 * HANG)
        root.close()
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    assert "1 passed" in run.stdout


def test_a_bundle_is_compared_file_by_file(tmp_path: Path) -> None:
    made, committed = tmp_path / "made", tmp_path / "committed"
    for folder in (made, committed):
        folder.mkdir()
        (folder / "same.js").write_text("same")
        (folder / "other.js").write_text(folder.name)
    (made / "new.js").touch()
    (committed / "old.js").touch()
    assert differences(made, committed) == ["new.js", "old.js", "other.js"]
    (made / "other.js").write_text("committed")
    assert differences(made, committed) == ["new.js", "old.js"]
