"""The tutorial's story word by word: its lines in one shell, with every kubectl of this machine and `shoal`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import INTERRUPT, TERMINAL, read
from tests.real.programs import kubectls
from tests.story.everything import Inventory
from tests.story.fleets import HUB, Fleet
from tests.story.story import Story

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "tutorials" / "laptop-fleet.md"
LOOKS = ("kubectl get ", "kubectl --kubeconfig east.kubeconfig get ", "kubectl rollout history ")
MOST_COMMANDS = 6
"""To have the whole story, besides looking at it."""
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
    """What is typed in the second terminal, up to the end of Shoal."""
    page = read(PAGE, PAGE.read_text())
    typed = [block.script for block in page.steps() if TERMINAL not in block.marks and INTERRUPT not in block.marks]
    return "".join(typed).splitlines()


class Shell:
    """A terminal beside the one of `make up`."""

    def __init__(self, kubectl: str, home: Path) -> None:
        self.home = home
        (home / "bin").mkdir()
        (home / "bin" / "kubectl").symlink_to(kubectl)
        (home / "examples").symlink_to(ROOT / "examples")
        (home / "bin" / "shoal").symlink_to(Path(sys.prefix) / "bin" / "shoal")
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
    assert sum(line.count("kubectl ") for line in written if not line.startswith(LOOKS)) <= MOST_COMMANDS
    looked, seen = [], {}
    for line in written:
        said = seen[line] = shell(line)
        if "shoal status" in line:
            looked += re.findall(r"default/web +(\d+/\d+)", said)
        for step in [step for part, step in ENDS.items() if part in line]:
            story.finish(step)
            if step == "scale":
                inventory.learn(story.hub, story.inside("east"))
                story.check_nodes()
    assert looked == ["10/10", "60/60"]
    assert re.findall(r"^(web\S*) +(\S+)", seen["kubectl get deployments"], re.MULTILINE) == [
        ("web", "10/10"), ("web--east", "5/5"), ("web--west", "5/5"),
    ]  # fmt: skip
    assert len(re.findall(r"(?:east|west) +Running +worker-[12]", seen["kubectl get managedclusters"])) == 2
    nodes = seen["kubectl --kubeconfig east.kubeconfig get nodes"]
    assert len(re.findall(r"^east-default-\S+ +Ready", nodes, re.MULTILINE)) == 2
    assert len([line for line in written if any(part in line for part in ENDS)]) == len(ENDS)
    inventory.nothing_is_left()
    story.close()
