"""A fake kind command: a program with its state in a directory, which waits and fails as files there request.

`down`: the engine does not respond. `hold-create`, `hold-delete`: it waits while the file exists. `fail-create`,
`fail-delete`: it fails with that text; with `fail-leaves` a partly created cluster stays. `clusters/<name>`: a cluster,
complete once it has a kubeconfig. `calls`: one line per call.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

PROGRAM = """#!{python} -SE
import base64, os, shutil, sys, time
state = {state!r}
arguments = sys.argv[1:]
name = arguments[arguments.index("--name") + 1] if "--name" in arguments else ""
folder = os.path.join(state, "clusters", name)

def there(file):
    return os.path.exists(os.path.join(state, file))

def read(file):
    with open(os.path.join(state, file)) as opened:
        return opened.read()

def say(text):
    print(text, file=sys.stderr, flush=True)

def fail(text):
    say("ERROR: " + text)
    sys.exit(1)

def hold(file):
    while there(file):
        time.sleep(0.005)

with open(os.path.join(state, "calls"), "a") as calls:
    calls.write(" ".join(arguments[:2] + [name]).strip() + "\\n")
if there("down"):
    fail("failed to list clusters: command \\"docker ps\\" failed with error: exit status 1\\n\\n"
         "Command Output: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
verb = arguments[:2]
if verb == ["get", "clusters"]:
    found = sorted(os.listdir(os.path.join(state, "clusters")))
    print("\\n".join(found)) if found else say("No kind clusters found.")
elif verb == ["create", "cluster"]:
    config = sys.stdin.read()
    if os.path.exists(folder):
        fail('failed to create cluster: node(s) already exist for a cluster with the name "' + name + '"')
    say('Creating cluster "' + name + '" ...')
    os.mkdir(folder)
    with open(os.path.join(folder, "config"), "w") as opened:
        opened.write(config)
    say(" • Preparing nodes 📦  ...")
    hold("hold-create")
    if there("fail-create"):
        if not there("fail-leaves"):
            shutil.rmtree(folder)
        fail("failed to create cluster: " + read("fail-create"))
    authority = base64.b64encode(os.urandom(9)).decode()
    text = read("template").replace("AUTHORITY", authority).replace("NAME", name)
    for path in (os.path.join(folder, "kubeconfig.new"), os.environ["KUBECONFIG"]):
        with open(path, "w") as opened:
            opened.write(text)
    os.rename(os.path.join(folder, "kubeconfig.new"), os.path.join(folder, "kubeconfig"))
    say(" ✓ Preparing nodes 📦")
elif verb == ["delete", "cluster"]:
    say('Deleting cluster "' + name + '" ...')
    hold("hold-delete")
    if there("fail-delete"):
        fail("failed to delete cluster: " + read("fail-delete"))
    shutil.rmtree(folder, ignore_errors=True)
elif verb == ["get", "kubeconfig"]:
    if not os.path.exists(os.path.join(folder, "kubeconfig")):
        fail("could not locate any control plane nodes for cluster named '" + name + "'")
    print(read(os.path.join("clusters", name, "kubeconfig")))
else:
    fail("unknown command")
"""

TEMPLATE = """apiVersion: v1
kind: Config
clusters:
- name: kind-NAME
  cluster: {server: "https://127.0.0.1:1", certificate-authority-data: AUTHORITY}
contexts:
- name: kind-NAME
  context: {cluster: kind-NAME, user: kind-NAME}
current-context: kind-NAME
users:
- name: kind-NAME
  user: {token: secret-of-NAME}
"""
"""Nobody answers there: it is a cluster that cannot tell whose it is."""


class Standin:
    def __init__(self, directory: Path) -> None:
        self.state, binaries = directory / "state", directory / "bin"
        (self.state / "clusters").mkdir(parents=True)
        binaries.mkdir()
        self.path = str(binaries)
        self.environment = {"PATH": self.path, "HOME": str(directory)}
        self.write("template", TEMPLATE)
        self.program = binaries / "kind"
        for file, text in (
            (self.program, PROGRAM.format(python=sys.executable, state=str(self.state))),
            (binaries / "docker", "#!/bin/false\n"),
        ):
            file.write_text(text)
            file.chmod(0o755)

    def write(self, file: str, text: str = "") -> None:
        """As a whole: the program may look at any moment."""
        new = self.state / f"{file.replace('/', '-')}.new"
        new.write_text(text)
        os.replace(new, self.state / file)

    def unlink(self, file: str) -> None:
        (self.state / file).unlink()

    def clusters(self) -> list[str]:
        return sorted(path.name for path in (self.state / "clusters").iterdir())

    def config(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / "clusters" / name / "config").read_text())
        return found

    def kubeconfig(self, name: str) -> str:
        """As kind prints it."""
        return (self.state / "clusters" / name / "kubeconfig").read_text() + "\n"

    def make(self, name: str, kubeconfig: str | None = None) -> None:
        """As somebody else would."""
        folder = self.state / "clusters" / name
        folder.mkdir()
        authority = base64.b64encode(f"foreign {name}".encode()).decode()
        text = TEMPLATE.replace("AUTHORITY", authority).replace("NAME", name) if kubeconfig is None else kubeconfig
        (folder / "kubeconfig").write_text(text)

    def remove(self, name: str) -> None:
        folder = self.state / "clusters" / name
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()

    def calls(self, verb: str = "") -> list[str]:
        file = self.state / "calls"
        return [line for line in file.read_text().splitlines() if line.startswith(verb)] if file.exists() else []
