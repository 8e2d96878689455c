"""What can be said of a block without running it: bash reads it, `shoal` has its flags, its manifests are accepted.

For blocks that need what a test has not: containers, another machine, a cloud. Their manifests go to a Shoal server as
server-side apply with dry run and strict field validation.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

import click
import yaml

from shoal.cli.main import shoal
from tests.docs.pages import NOT_RUN, ROOT, TYPED_BY, Block, Page
from tests.docs.words import Command, commands, values
from tests.serving import Answer, Cluster

Object = dict[str, Any]

REASONS = (
    "Go",
    "a Go project",
    "a browser",
    "a cloud",
    "a cluster of your own",
    "a collector",
    "a NATS server",
    "a package index",
    "another machine",
    "etcd",
    "minutes",
    "root",
    "the network",
)
"""What a block may need that is not there; it says `needs` and one of these, or some with commas."""
_UNKNOWN = re.compile(r"[$…]|^[A-Z][A-Z_/]*$")
"""A word that only the reader knows."""


def wrong_reason(page: Page, block: Block) -> str:
    if TYPED_BY in block.marks:
        file = ROOT / "tests" / block.marks[TYPED_BY]
        calls = f'typed_block("{page.name}", '
        return "" if file.is_file() and calls in file.read_text() else f"{file.name} does not call {calls}"
    needs = block.marks[NOT_RUN].removeprefix("needs ").split(", ")
    strange = [each for each in needs if each not in REASONS]
    return f"not run: needs {', '.join(strange)}? Known are {', '.join(REASONS)}" if strange else ""


def not_bash(script: str) -> str:
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    return done.stderr


def wrong_usage(command: Command) -> str:
    """What `shoal` would say about its words, without doing anything."""
    words = command.words[2:] if command.words[:2] == ["kubectl", "shoal"] else command.words[1:]
    context = click.Context(shoal, info_name="shoal")
    found: click.Command = shoal
    try:
        while isinstance(found, click.Group):
            if not words or words[0].startswith("-"):
                return "" if set(words) <= {"--help", "-h", "--version"} else f"no command in {command.words}"
            name, *words = words
            inner = found.get_command(context, name)
            if inner is None:
                return f"there is no command {name}"
            found, context = inner, click.Context(inner, context, info_name=name)
        return _wrong_options(found, context, words)
    except click.UsageError as error:
        return f"{' '.join(command.words)}: {error.format_message()}"


def _wrong_options(command: click.Command, context: click.Context, words: list[str]) -> str:
    given, left, _ = command.make_parser(context).parse_args(args=list(words))
    if left:
        return f"{command.name} takes no {left}"
    for parameter in command.params:
        value = given.get(parameter.name or "")
        if parameter.required and not (isinstance(value, (str, list, tuple)) and value):
            return f"{command.name} needs {parameter.name}"
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, str) and isinstance(parameter.type, click.Choice) and not _UNKNOWN.search(each):
                parameter.type.convert(each, parameter, context)
    return ""


def manifests(page: Page, block: Block) -> Iterator[tuple[str, Object]]:
    """Every object that a block applies, with the name of its file; AssertionError where there is no such file."""
    written = {
        command.writes: command.given
        for each in page.blocks
        if each.is_shell
        for command in commands(each.script)
        if command.writes
    }
    for command in commands(block.script):
        if command.program not in ("kubectl", "shoal") or not {"apply", "create"} & set(command.words):
            continue
        for name in values(command, "-k", "--kustomize"):
            assert (ROOT / name / "kustomization.yaml").exists(), f"there is no {name}/kustomization.yaml"
        for name in values(command, "-f", "--filename"):
            if name == "-":
                yield from _objects("standard input", command.given or "")
            elif name in written:
                yield from _objects(name, written[name] or "")
            elif not _UNKNOWN.search(name):
                yield from _from_files(name)


def _from_files(name: str) -> Iterator[tuple[str, Object]]:
    path = ROOT / name
    assert path.exists(), f"there is no {name}"
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
        yield from _objects(str(file.relative_to(ROOT)), file.read_text())


def _objects(name: str, text: str) -> Iterator[tuple[str, Object]]:
    return ((name, each) for each in yaml.safe_load_all(text) if isinstance(each, dict) and "kind" in each)


def shown_manifests(page: Page) -> Iterator[tuple[int, Object]]:
    """Whole objects in YAML blocks; what has no kind is a part of one."""
    for block in page.blocks:
        if block.language == "yaml":
            for each in yaml.safe_load_all(block.text):
                if isinstance(each, dict) and "kind" in each and "apiVersion" in each:
                    yield block.line, each


class Places:
    """A hub and a hosted cluster: one of them serves every kind there is."""

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self._clusters = list(clusters)

    def refusal(self, given: Object) -> str:
        """Why neither would take it."""
        group_version, kind = str(given["apiVersion"]), str(given["kind"])
        prefix = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
        for cluster in self._clusters:
            served = cluster.get(prefix)
            if served.status == 200:
                for resource in served["resources"]:
                    if resource["kind"] == kind and "/" not in resource["name"]:
                        return _words(self._apply(cluster, prefix, resource, given))
        return f"nobody serves {group_version} {kind}"

    def _apply(self, cluster: Cluster, prefix: str, resource: Object, given: Object) -> Answer:
        metadata = {**given.get("metadata", {})}
        metadata.setdefault("name", metadata.pop("generateName", "") + "x" if "generateName" in metadata else "x")
        path = f"/{resource['name']}/{metadata['name']}"
        if resource["namespaced"]:
            namespace = metadata.setdefault("namespace", "default")
            if cluster.get(f"/api/v1/namespaces/{namespace}").status == 404:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                cluster.post("/api/v1/namespaces", body).ok()
            path = f"/namespaces/{namespace}{path}"
        query = "fieldManager=docs&force=true&dryRun=All&fieldValidation=Strict"
        return cluster.patch(f"{prefix}{path}?{query}", {**given, "metadata": metadata}, "apply")


def _words(answer: Answer) -> str:
    return "" if answer.status < 300 else str(answer["message"])
