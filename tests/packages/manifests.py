"""The objects of `deploy/`: read, asked of a server by a dry run, and their containers' arguments held against the
commands of this release."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from click.testing import CliRunner

from shoal import __version__
from shoal.cli.main import shoal
from shoal.fleet.bundle.objects import IMAGE_REPOSITORY
from tests.packages.building import ROOT

Object = dict[str, Any]

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart" / "shoal"
OWN_IMAGE = f"{IMAGE_REPOSITORY}:{__version__}"


def plain() -> dict[str, list[Object]]:
    """By folder, what its kustomization names; the provisioner's rights where the Machines are go with it."""
    found = {}
    for folder in sorted(path.parent for path in DEPLOY.glob("*/kustomization.yaml")):
        listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        others = [] if folder.name != "provisioner" else ["machines.yaml"]
        found[folder.name] = [obj for name in [*listed, *others] for obj in read((folder / name).read_text())]
    return found


def read(text: str) -> list[Object]:
    return [obj for obj in yaml.safe_load_all(text) if obj]


def id_of(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata'].get('namespace', '-')}/{obj['metadata']['name']}"


def pod_of(objects: list[Object], name: str) -> Object:
    """The pod spec of a Deployment or StatefulSet."""
    found = next(obj for obj in objects if obj["kind"] in ("Deployment", "StatefulSet") and name in id_of(obj))
    spec: Object = found["spec"]["template"]["spec"]
    return spec


def containers(objects: list[Object]) -> Iterator[Object]:
    """Of the Deployments, StatefulSets and Pods."""
    for obj in objects:
        if obj["kind"] in ("Deployment", "StatefulSet"):
            yield from obj["spec"]["template"]["spec"]["containers"]
        elif obj["kind"] == "Pod":
            yield from obj["spec"]["containers"]


def dry_run(objects: list[Object], kubeconfig: Path, directory: Path) -> None:
    """Every object is accepted by that server. Namespaces are made, for the others to be asked of."""
    namespaces = [obj for obj in objects if obj["kind"] == "Namespace"]
    rest = [obj for obj in objects if obj["kind"] != "Namespace"]
    # A second release in a namespace is another one's; here each name is asked of once.
    names = [id_of(obj) for obj in rest]
    assert len(names) == len(set(names)), names
    for number, (some, more) in enumerate(((namespaces, ()), (rest, ("--dry-run", "server")))):
        if not some:
            continue
        file = directory / f"{number}.yaml"
        file.write_text(yaml.safe_dump_all(some))
        done = CliRunner().invoke(shoal, ["apply", "-f", str(file), "--kubeconfig", str(kubeconfig), *more])
        assert done.exit_code == 0, f"{done.output}{done.exception!r}"
        assert len(done.stdout.splitlines()) == len(some)


def check_arguments(arguments: list[str]) -> None:
    """What a container is started with is a command of this release, with options it has and values it takes."""
    name, *rest = arguments
    command = shoal.get_command(click.Context(shoal), name)
    assert command is not None, f"there is no command {name}"
    context = click.Context(command, info_name=name)
    given, left, _ = command.make_parser(context).parse_args(list(rest))
    assert left == [], f"shoal {name} takes no {left}"
    for parameter in command.params:
        if parameter.name not in given:
            assert not parameter.required, f"shoal {name} needs {parameter.opts}"
        elif not isinstance(parameter.type, click.Path):  # the file is in the pod
            parameter.type_cast_value(context, given[parameter.name])
