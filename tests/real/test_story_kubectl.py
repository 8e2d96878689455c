"""README's story word by word: its lines in one shell, with every kubectl of this machine and the `shoal` command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.programs import kubectls
from tests.story.everything import Inventory
from tests.story.fleets import HUB, Fleet
from tests.story.story import Story

ROOT = Path(__file__).parent.parent.parent
MOST_COMMANDS = 6
HANG = 120.0

ENDS = {
    "kubectl wait managedclusters": "clusters",
    "examples/nodepool.yaml": "node_pools",
    "apply -f examples/deployment.yaml": "deployment",
    "kubectl scale": "scale",
    "kubectl delete": "delete_clusters",
}
"""By a part of a line, the step of the story that it leads to."""


def lines() -> list[str]:
    """The first fenced block of the section."""
    section = (ROOT / "README.md").read_text().split("\n## The story\n", 1)[1].split("\n## ", 1)[0]
    block = re.search(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    return block[1].splitlines()


class Shell:
    """A terminal beside the one of `make up`."""

    def __init__(self, kubectl: str, home: Path) -> None:
        self.home = home
        (home / "bin").mkdir()
        (home / "bin" / "kubectl").symlink_to(kubectl)
        (home / "examples").symlink_to(ROOT / "examples")
        (home / ".venv").symlink_to(sys.prefix)
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home,
            env={"HOME": str(home), "PATH": path},
        )
        # Whoever reads a line that never comes is told by its end.
        self._guard = threading.Timer(HANG, self._process.kill)
        self._guard.start()

    def __call__(self, line: str) -> str:
        """What a line prints that succeeds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f'{line}\necho "ended with $?"\n')
        self._process.stdin.flush()
        said = ""
        for part in self._process.stdout:
            if part.startswith("ended with "):
                assert part == "ended with 0\n", f"{line}: {said}{part}"
                return said
            said += part
        raise AssertionError(f"{line}: {said}")

    def close(self) -> None:
        self._guard.cancel()
        self._process.kill()
        self._process.communicate()


@pytest.fixture(params=kubectls() or [pytest.param("none", marks=pytest.mark.skip(reason="kubectl"))])
def terminals(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fleet, Shell]]:
    """The one where Shoal runs, and the second."""
    fleet = Fleet(tmp_path / "fleet", apart=False)
    home = tmp_path / "home"
    (home / ".local" / "share").mkdir(parents=True)
    (home / ".local" / "share" / "shoal").symlink_to(fleet.data(HUB))
    shell = Shell(kubectls()[request.param], home)
    yield fleet, shell
    shell.close()
    fleet.close()


def test_word_by_word(terminals: tuple[Fleet, Shell]) -> None:
    fleet, shell = terminals
    story, inventory = Story(fleet), Inventory(fleet)
    written = lines()
    assert sum(line.count("kubectl ") for line in written) <= MOST_COMMANDS
    looked = []
    for line in written:
        said = shell(line)
        if "shoal status" in line:
            looked += re.findall(r"default/web +(\d+/\d+)", said)
        for step in [step for part, step in ENDS.items() if part in line]:
            story.finish(step)
            if step == "scale":
                inventory.learn(story.hub, story.inside("east"))
                story.check_nodes()
    assert looked == ["10/10", "60/60"]
    assert len([line for line in written if any(part in line for part in ENDS)]) == len(ENDS)
    inventory.nothing_is_left()
    story.close()


def test_what_the_prose_shows(terminals: tuple[Fleet, Shell]) -> None:
    """The commands to look at it, in the words of the section."""
    fleet, shell = terminals
    story = Story(fleet)
    for line in lines()[:7]:
        shell(line)
    story.finish("deployment")
    managed = shell("kubectl get managedclusters,workers -A")
    assert len(re.findall(r"managedcluster\S+/(?:east|west) +Running +worker-[12]", managed)) == 2
    assert len(re.findall(r"worker\S+/worker-[12] +Running", managed)) == 2
    found = shell("kubectl get deployments")
    assert re.findall(r"^(web\S*) +(\S+)", found, re.MULTILINE) == [
        ("web", "10/10"), ("web--east", "5/5"), ("web--west", "5/5"),
    ]  # fmt: skip
    inside = shell("kubectl --kubeconfig east.kubeconfig get nodes,nodeclaims,pods")
    assert len(re.findall(r"node/east-default-\S+ +Ready", inside)) == 2
    assert len(re.findall(r"pod/web--east-\S+ +1/1 +Running", inside)) == 5
    text = (ROOT / "README.md").read_text()
    for words in ("get managedclusters,workers -A", "get deployments", "get nodes,nodeclaims,pods"):
        assert words in text
    story.close()
