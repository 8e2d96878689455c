"""`shoal kubeconfig`: the admin's, or that of a managed cluster."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import click
import yaml

from shoal.assemble.datadir import write_private
from shoal.cli.asking import AskingError, ask, hub_kubeconfig, hub_options
from shoal.client.requests import Client, Kind
from shoal.kinds.fleet import kubeconfig_secret
from shoal.objects.errors import NotFound

Object = dict[str, Any]

SECRETS = Kind("", "v1", "secrets")


@click.command(name="kubeconfig")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the managed cluster.")
@click.option("--merge", is_flag=True, help="Adds it to your own kubeconfig instead, as a context shoal-NAME.")
@hub_options
def command(name: str | None, namespace: str, merge: bool, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Prints the kubeconfig of the administrator of the hub, or of the managed cluster NAME."""
    if name is None:
        text = _read(hub_kubeconfig(kubeconfig, data_dir))
    else:
        text = ask(kubeconfig, data_dir, lambda client: _of_managed(client, namespace, name))
    if not merge:
        click.echo(text, nl=not text.endswith("\n"))
        return
    own = Path(os.environ.get("KUBECONFIG", "").split(os.pathsep)[0] or Path.home() / ".kube" / "config")
    context = f"shoal-{name}" if name else "shoal"
    before = yaml.safe_load(own.read_text()) if own.exists() else None
    own.parent.mkdir(parents=True, exist_ok=True)
    write_private(own, yaml.safe_dump(merged(before or {}, yaml.safe_load(text), context), sort_keys=False))
    click.echo(f"added context {context} to {own}; next: kubectl --context {context} get namespaces", err=True)


def merged(own: Object, added: Object, context: str) -> Object:
    """The current context stays what it is; an older entry of that name is replaced."""
    named = next(item["context"] for item in added["contexts"] if item["name"] == added["current-context"])
    cluster = next(item["cluster"] for item in added["clusters"] if item["name"] == named["cluster"])
    user = next(item["user"] for item in added["users"] if item["name"] == named["user"])
    entries = {"clusters": ("cluster", cluster), "users": ("user", user)}
    entries["contexts"] = ("context", {**named, "cluster": context, "user": context})
    config = {"apiVersion": "v1", "kind": "Config", **own}
    for section, (word, value) in entries.items():
        kept = [item for item in config.get(section) or [] if item.get("name") != context]
        config[section] = [*kept, {"name": context, word: value}]
    config.setdefault("current-context", context)
    return config


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise AskingError(f"{file} cannot be read: {error.strerror}") from None


async def _of_managed(client: Client, namespace: str, name: str) -> str:
    if "/" in name:
        namespace, name = name.split("/", 1)
    try:
        secret = await client.get(SECRETS, kubeconfig_secret(name), namespace)
    except NotFound:
        raise AskingError(
            f"there is no kubeconfig of a managed cluster {namespace}/{name}",
            f"is it Running? kubectl get managedclusters -n {namespace}",
        ) from None
    return base64.b64decode((secret.get("data") or {})["value"]).decode()
