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

from shoal.assemble.storage.datadir import write_private_file
from shoal.cli.options.hub import CommandError, call_hub, find_hub_kubeconfig, hub_options
from shoal.client.kubeconfig import new_client, parse, rest_config_of
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.kinds.clusterapi.embedded import ADMIN_NAMESPACE, ADMIN_SERVICE_ACCOUNT
from shoal.kinds.fleet.infrav1 import kubeconfig_secret_name
from shoal.objects.duration import parse_duration
from shoal.objects.errors import NotFound, Unavailable

Object = dict[str, Any]

SECRETS = GroupVersionResource("", "v1", "secrets")
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
EXEC_VERSION = "client.authentication.k8s.io/v1"
MIN_TTL_SECONDS = 600
"""Kubernetes issues no tokens for fewer seconds."""


@dataclass(frozen=True, slots=True)
class KubeconfigRequest:
    namespace: str
    name: str
    ttl: int
    """Seconds."""
    long_lived: bool


def _parse_ttl(context: click.Context, option: click.Parameter, value: str) -> int:
    seconds = parse_duration(value)
    if seconds is None or seconds < MIN_TTL_SECONDS:
        raise click.BadParameter(f"{value!r}: give a duration of at least 10 minutes, such as 1h or 30m")
    return int(seconds)


@click.command(name="kubeconfig")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the managed cluster.")
@click.option("--merge", is_flag=True, help="Add it to your own kubeconfig, as context shoal-NAME.")
@click.option("--ttl", default="1h", show_default=True, callback=_parse_ttl, help="Time until its token expires.")
@click.option("--exec", "execute", is_flag=True, help="Without a token: kubectl calls shoal to get one when needed.")
@click.option("--long-lived", is_flag=True, help="With the token that never expires, from the Secret NAME-kubeconfig.")
@click.option(
    "-o", "--output", type=click.Choice(["kubeconfig", "exec-credential"]), default="kubeconfig", show_default=True
)
@hub_options
def command(
    *,
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
    """Prints the kubeconfig of the hub's administrator, or of the managed cluster NAME."""
    if name is None:
        if execute or long_lived or output != "kubeconfig":
            raise click.UsageError("--exec, --long-lived and -o require the NAME of a managed cluster")
        text = _read(find_hub_kubeconfig(kubeconfig, data_dir))
    else:
        space, _, one = name.rpartition("/")
        request = KubeconfigRequest(space or namespace, one, ttl, long_lived)
        if execute:
            text = _exec_kubeconfig(
                call_hub(kubeconfig, data_dir, lambda client: _read_stored(client, request)),
                request,
                kubeconfig,
                data_dir,
            )
        else:
            text = call_hub(kubeconfig, data_dir, lambda client: _issue_kubeconfig(client, request, output))
    if not merge:
        click.echo(text, nl=not text.endswith("\n"))
        return
    own = Path(os.environ.get("KUBECONFIG", "").split(os.pathsep)[0] or Path.home() / ".kube" / "config")
    context = f"shoal-{name}" if name else "shoal"
    before = yaml.safe_load(own.read_text()) if own.exists() else None
    own.parent.mkdir(parents=True, exist_ok=True)
    write_private_file(
        own, yaml.safe_dump(merge_kubeconfig(before or {}, yaml.safe_load(text), context), sort_keys=False)
    )
    click.echo(f"added context {context} to {own}; next: kubectl --context {context} get namespaces", err=True)


def merge_kubeconfig(own: Object, added: Object, context: str) -> Object:
    """Keeps the current context; replaces an older entry of that name."""
    added_context = next(item["context"] for item in added["contexts"] if item["name"] == added["current-context"])
    cluster = next(item["cluster"] for item in added["clusters"] if item["name"] == added_context["cluster"])
    user = next(item["user"] for item in added["users"] if item["name"] == added_context["user"])
    entries = {"clusters": ("cluster", cluster), "users": ("user", user)}
    entries["contexts"] = ("context", {**added_context, "cluster": context, "user": context})
    config = {"apiVersion": "v1", "kind": "Config", **own}
    for section, (word, value) in entries.items():
        others = [item for item in config.get(section) or [] if item.get("name") != context]
        config[section] = [*others, {"name": context, word: value}]
    config.setdefault("current-context", context)
    return config


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None


async def _read_stored(client: Client, request: KubeconfigRequest) -> str:
    """Returns the kubeconfig as the hub stores it."""
    try:
        secret = await client.get(SECRETS, kubeconfig_secret_name(request.name), request.namespace)
    except NotFound:
        raise CommandError(
            f"there is no kubeconfig of a managed cluster {request.namespace}/{request.name}",
            f"is it Running? kubectl get managedclusters -n {request.namespace}",
        ) from None
    return base64.b64decode((secret.get("data") or {})["value"]).decode()


async def _issue_kubeconfig(client: Client, request: KubeconfigRequest, output: str) -> str:
    text = await _read_stored(client, request)
    if request.long_lived:
        if output != "kubeconfig":
            raise click.UsageError("-o exec-credential cannot be used with --long-lived")
        return text
    status = await _request_token(text, request)
    if output == "exec-credential":
        credential = {"token": status["token"], "expirationTimestamp": status["expirationTimestamp"]}
        exec_credential = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": credential}
        return orjson.dumps(exec_credential).decode()
    return _with_user(text, {"token": status["token"]})


async def _request_token(text: str, request: KubeconfigRequest) -> Object:
    where = f"Secret {request.namespace}/{kubeconfig_secret_name(request.name)}"
    cluster_client = new_client(rest_config_of(parse(text, where), source=where), "shoal-kubeconfig")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": request.ttl},
    }
    hint = "shoal kubeconfig --long-lived prints the stored kubeconfig"
    try:
        response = await cluster_client.request(
            "POST",
            cluster_client.resource_path(SERVICE_ACCOUNTS, ADMIN_SERVICE_ACCOUNT, ADMIN_NAMESPACE, "token"),
            body=body,
        )
    except NotFound:
        raise CommandError(
            f"{request.namespace}/{request.name} has no ServiceAccount {ADMIN_NAMESPACE}/{ADMIN_SERVICE_ACCOUNT}", hint
        ) from None
    except (Unavailable, Unreachable) as error:
        raise CommandError(f"{request.namespace}/{request.name} does not answer: {error}", hint) from None
    finally:
        await cluster_client.close()
    status: Object = response["status"]
    return status


def _exec_kubeconfig(text: str, request: KubeconfigRequest, kubeconfig: Path | None, data_dir: Path | None) -> str:
    program = Path(sys.argv[0])
    arguments = [
        "kubeconfig",
        request.name,
        "-n",
        request.namespace,
        "--ttl",
        f"{request.ttl}s",
        "-o",
        "exec-credential",
    ]
    arguments += ["--kubeconfig", str(find_hub_kubeconfig(kubeconfig, data_dir).absolute())]
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
