"""A fake kind command: a program with its state in a directory, which waits and fails as files there request.

`down`: the engine does not respond. `hold-create`, `hold-step-N`, `hold-load`, `hold-delete`: it waits while the file
exists. `fail-create`, `fail-load`, `fail-delete`: it fails with that text; with `fail-leaves` a partly created cluster
stays. `clusters/<name>`: a cluster with a kubeconfig once its control plane was started, `complete` at its end, and
`images` that were loaded. `images/<name>`: an image of the engine, which contains its id. `calls`: one line per call.
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

def write(file, text):
    with open(file + ".new", "w") as opened:
        opened.write(text)
    os.rename(file + ".new", file)

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
    config = read(arguments[arguments.index("--config") + 1])
    if os.path.exists(folder):
        fail('failed to create cluster: node(s) already exist for a cluster with the name "' + name + '"')
    say('Creating cluster "' + name + '" ...')
    for number, step in enumerate({steps!r}, 1):
        if step.startswith("Joining") and '"worker"' not in config:
            continue
        say(" • " + step + "  ...")
        hold("hold-step-" + str(number))
        if step.startswith("Preparing"):
            os.mkdir(folder)
            write(os.path.join(folder, "config"), config)
            hold("hold-create")
            if there("fail-create"):
                if not there("fail-leaves"):
                    shutil.rmtree(folder)
                say(" ✗ " + step)
                fail("failed to create cluster: " + read("fail-create"))
        if there("down"):
            say(" ✗ " + step)
            fail("failed to create cluster: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
        if step.startswith("Starting"):
            authority = base64.b64encode(os.urandom(9)).decode()
            text = read("template").replace("AUTHORITY", authority).replace("NAME", name)
            write(os.path.join(folder, "kubeconfig"), text)
        say(" ✓ " + step)
    write(os.environ["KUBECONFIG"], read(os.path.join(folder, "kubeconfig")))
    write(os.path.join(folder, "complete"), "")
elif verb == ["load", "docker-image"]:
    names = arguments[4:]
    hold("hold-load")
    if there("fail-load"):
        fail("failed to load image: " + read("fail-load"))
    for image in names:
        if not there(os.path.join("images", image.replace("/", "%"))):
            fail('image: "' + image + '" not present locally')
        say('Image: "' + image + '" not yet present on node "' + name + '-control-plane", loading...')
        with open(os.path.join(folder, "images"), "a") as opened:
            opened.write(image + "=" + read(os.path.join("images", image.replace("/", "%"))) + "\\n")
elif verb == ["delete", "cluster"]:
    say('Deleting cluster "' + name + '" ...')
    hold("hold-delete")
    if there("fail-delete"):
        fail("failed to delete cluster: " + read("fail-delete"))
    shutil.rmtree(folder, ignore_errors=True)
elif verb == ["get", "kubeconfig"]:
    if not there(os.path.join("clusters", name, "kubeconfig")):
        fail("could not locate any control plane nodes for cluster named '" + name + "'")
    print(read(os.path.join("clusters", name, "kubeconfig")))
else:
    fail("unknown command")
"""

STEPS = (
    "Ensuring node image (kindest/node) 🖼",
    "Preparing nodes 📦",
    "Writing configuration 📜",
    "Starting control-plane 🕹️",
    "Installing CNI 🔌",
    "Installing StorageClass 💾",
    "Joining worker nodes 🚜",
)

DOCKER = """#!{python} -SE
import os, sys
state = {state!r}
if os.path.exists(os.path.join(state, "down")):
    sys.exit("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
if sys.argv[1:3] == ["image", "inspect"]:
    file = os.path.join(state, "images", sys.argv[-1].replace("/", "%"))
    if not os.path.exists(file):
        print("[]")
        sys.exit("Error: No such image: " + sys.argv[-1])
    print(open(file).read())
else:
    sys.exit("unknown command")
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
        (self.state / "images").mkdir()
        binaries.mkdir()
        self.path = str(binaries)
        # An engine of its own: the names of clusters are locked for all processes that have the same one.
        self.environment = {"PATH": self.path, "HOME": str(directory), "DOCKER_HOST": f"unix://{directory}/docker.sock"}
        self.write("template", TEMPLATE)
        self.program = binaries / "kind"
        for file, text in (
            (self.program, PROGRAM.format(python=sys.executable, state=str(self.state), steps=STEPS)),
            (binaries / "docker", DOCKER.format(python=sys.executable, state=str(self.state))),
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

    def is_complete(self, name: str) -> bool:
        return (self.state / "clusters" / name / "complete").exists()

    def image(self, name: str, id_: str) -> None:
        """The engine has it."""
        self.write(f"images/{name.replace('/', '%')}", id_)

    def remove_image(self, name: str) -> None:
        self.unlink(f"images/{name.replace('/', '%')}")

    def loaded(self, name: str) -> list[str]:
        """`image=id` of every load into that cluster."""
        file = self.state / "clusters" / name / "images"
        return file.read_text().splitlines() if file.exists() else []

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
