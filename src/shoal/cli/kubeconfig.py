"""`shoal kubeconfig`: the administrator's kubeconfig, or that of a managed cluster, with a short-lived token.

A user who may read the Secret with the kubeconfig of a managed cluster may use it. With that permission a short-lived
token of its administrator is requested at the cluster itself, through the hub.
"""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from shoal.assemble.datadir import write_private
from shoal.cli.asking import AskingError, ask, hub_kubeconfig, hub_options
from shoal.client.kubeconfig import client_to, endpoint_of, parse
from shoal.client.requests import Client, Kind
from shoal.client.transport import Unreachable
from shoal.kinds.embedded import ADMIN, ADMIN_NAMESPACE
from shoal.kinds.fleet import kubeconfig_secret
from shoal.objects.duration import parse_duration
from shoal.objects.errors import NotFound, Unavailable

Object = dict[str, Any]

SECRETS = Kind("", "v1", "secrets")
ACCOUNTS = Kind("", "v1", "serviceaccounts")
EXEC_VERSION = "client.authentication.k8s.io/v1"
SHORTEST = 600
"""Kubernetes issues no tokens for fewer seconds."""


@dataclass(frozen=True, slots=True)
class Asked:
    namespace: str
    name: str
    ttl: int
    """Seconds."""
    long_lived: bool


def _seconds(context: click.Context, option: click.Parameter, value: str) -> int:
    seconds = parse_duration(value)
    if seconds is None or seconds < SHORTEST:
        raise click.BadParameter(f"{value!r} is not a time of 10 minutes or more, such as 1h or 30m")
    return int(seconds)


@click.command(name="kubeconfig")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of the managed cluster.")
@click.option("--merge", is_flag=True, help="Adds it to your own kubeconfig instead, as a context shoal-NAME.")
@click.option("--ttl", default="1h", show_default=True, callback=_seconds, help="How long its token is good for.")
@click.option(
    "--exec", "execute", is_flag=True, help="With no token: kubectl calls shoal for one whenever it needs one."
)
@click.option("--long-lived", is_flag=True, help="With the token that never ends, from the Secret NAME-kubeconfig.")
@click.option(
    "-o", "--output", type=click.Choice(["kubeconfig", "exec-credential"]), default="kubeconfig", show_default=True
)
@hub_options
def command(
    name: str | None,
    namespace: str,
    merge: bool,
    ttl: int,
    execute: bool,
    long_lived: bool,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Prints the kubeconfig of the administrator of the hub, or of the managed cluster NAME."""
    if name is None:
        if execute or long_lived or output != "kubeconfig":
            raise click.UsageError("--exec, --long-lived and -o are for a managed cluster: give its NAME")
        text = _read(hub_kubeconfig(kubeconfig, data_dir))
    else:
        space, _, one = name.rpartition("/")
        asked = Asked(space or namespace, one, ttl, long_lived)
        if execute:
            text = _executing(
                ask(kubeconfig, data_dir, lambda client: _stored(client, asked)), asked, kubeconfig, data_dir
            )
        else:
            text = ask(kubeconfig, data_dir, lambda client: _given(client, asked, output))
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
    """Keeps the current context; replaces an older entry of that name."""
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


async def _stored(client: Client, asked: Asked) -> str:
    """Returns the kubeconfig as the hub stores it."""
    try:
        secret = await client.get(SECRETS, kubeconfig_secret(asked.name), asked.namespace)
    except NotFound:
        raise AskingError(
            f"there is no kubeconfig of a managed cluster {asked.namespace}/{asked.name}",
            f"is it Running? kubectl get managedclusters -n {asked.namespace}",
        ) from None
    return base64.b64decode((secret.get("data") or {})["value"]).decode()


async def _given(client: Client, asked: Asked, output: str) -> str:
    text = await _stored(client, asked)
    if asked.long_lived:
        if output != "kubeconfig":
            raise click.UsageError("an exec-credential is short-lived: leave out --long-lived")
        return text
    status = await _token(text, asked)
    if output == "exec-credential":
        credential = {"token": status["token"], "expirationTimestamp": status["expirationTimestamp"]}
        made = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": credential}
        return orjson.dumps(made).decode()
    return _with_user(text, {"token": status["token"]})


async def _token(text: str, asked: Asked) -> Object:
    where = f"Secret {asked.namespace}/{kubeconfig_secret(asked.name)}"
    inside = client_to(endpoint_of(parse(text, where), where=where), "shoal-kubeconfig")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": asked.ttl},
    }
    hint = "shoal kubeconfig --long-lived prints it as it is kept"
    try:
        found = await inside.call("POST", inside.path(ACCOUNTS, ADMIN, ADMIN_NAMESPACE, "token"), body=body)
    except NotFound:
        raise AskingError(f"{asked.namespace}/{asked.name} has no account {ADMIN_NAMESPACE}/{ADMIN}", hint) from None
    except (Unavailable, Unreachable) as error:
        raise AskingError(f"{asked.namespace}/{asked.name} does not answer: {error}", hint) from None
    finally:
        await inside.close()
    status: Object = found["status"]
    return status


def _executing(text: str, asked: Asked, kubeconfig: Path | None, data_dir: Path | None) -> str:
    program = Path(sys.argv[0])
    arguments = ["kubeconfig", asked.name, "-n", asked.namespace, "--ttl", f"{asked.ttl}s", "-o", "exec-credential"]
    arguments += ["--kubeconfig", str(hub_kubeconfig(kubeconfig, data_dir).absolute())]
    plugin = {
        "apiVersion": EXEC_VERSION,
        "command": str(program.absolute()) if program.is_file() else "shoal",
        "args": arguments,
        "interactiveMode": "Never",
    }
    return _with_user(text, {"exec": plugin})


def _with_user(text: str, user: Object) -> str:
    config = yaml.safe_load(text)
    config["users"] = [{"name": config["users"][0]["name"], "user": user}]
    return yaml.safe_dump(config, sort_keys=False)
