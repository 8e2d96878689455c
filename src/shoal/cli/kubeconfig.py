"""`shoal kubeconfig`: the administrator's kubeconfig, or one with which the asker enters a managed cluster.

The hub issues short-lived tokens to users whom `spec.access` of the managed cluster mentions. A kubeconfig without a
token has a command that asks for one whenever it is needed. None has a token that lasts for ever.
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
from shoal.cli.options.hub import (
    EXIT_DENIED,
    CommandError,
    HubLocation,
    call_hub,
    find_hub_kubeconfig,
    hub_options,
    local_hub_url,
    translate_hub_errors,
    used_data_dir,
)
from shoal.cli.options.loops import parse_loop_names
from shoal.client.kubeconfig import load_rest_config
from shoal.client.rest import Client, GroupVersionResource
from shoal.kinds.fleet import infrav1
from shoal.objects.duration import parse_duration
from shoal.objects.errors import Forbidden, NotFound, Unavailable

Object = dict[str, Any]

MANAGED_CLUSTERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "managedclusters")
EXEC_VERSION = "client.authentication.k8s.io/v1"
MIN_TTL_SECONDS, MAX_TTL_SECONDS, DEFAULT_TTL_SECONDS = 600, 43_200, 3600
LONG_LIVED = (
    "--long-lived was removed: no kubeconfig has a token without end; without options its token is renewed by kubectl, "
    "--ttl 12h gives one that is valid for so long, and programs use a ServiceAccount of the cluster"
)


@dataclass(frozen=True, slots=True)
class TokenTarget:
    namespace: str
    name: str
    ttl: int = DEFAULT_TTL_SECONDS
    """Seconds."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def _parse_ttl(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    seconds = parse_duration(value)
    if seconds is None or not MIN_TTL_SECONDS <= seconds <= MAX_TTL_SECONDS:
        raise click.BadParameter(f"{value!r}: give a duration from 10 minutes to 12 hours, such as 1h or 30m")
    return int(seconds)


def _refuse_long_lived(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        raise click.UsageError(LONG_LIVED)


@click.command(name="kubeconfig")
@click.argument("name", required=False)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the managed cluster.")
@click.option("--merge", is_flag=True, help="Add it to your own kubeconfig, as context shoal-NAME.")
@click.option(
    "--ttl",
    metavar="DURATION",
    callback=_parse_ttl,
    help="With one token that is valid for this time, 10m to 12h. [kubectl calls shoal to renew the token]",
)
@click.option(
    "--loops",
    callback=parse_loop_names,
    metavar="A,B",
    help="For shoal controllers: with the accounts of these loops, which the hub does not run itself.",
)
@click.option("--exec", is_flag=True, hidden=True, expose_value=False, help="The default.")
@click.option("--long-lived", is_flag=True, hidden=True, expose_value=False, callback=_refuse_long_lived)
@click.option(
    "-o", "--output", type=click.Choice(["kubeconfig", "exec-credential"]), default="kubeconfig", show_default=True
)
@hub_options
def command(
    *,
    name: str | None,
    namespace: str,
    merge: bool,
    ttl: int | None,
    loops: tuple[str, ...] | None,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Prints the kubeconfig of the hub's administrator, or your own for the managed cluster NAME."""
    location = kubeconfig, data_dir
    if loops is not None:
        if name is not None or ttl is not None or merge or output != "kubeconfig":
            raise click.UsageError("--loops cannot be used with NAME or other options than those of the hub")
        text = _kubeconfig_of_loops(location, loops)
    elif name is None:
        if ttl is not None or output != "kubeconfig":
            raise click.UsageError("--ttl and -o require the NAME of a managed cluster")
        text = _read(find_hub_kubeconfig(*location))
    else:
        space, _, one = name.rpartition("/")
        target = TokenTarget(space or namespace, one, ttl or DEFAULT_TTL_SECONDS)
        if output == "exec-credential":
            text = exec_credential(_request_token(location, target))
        elif ttl is not None:
            token = _request_token(location, target)["token"]
            text = hosted_kubeconfig(location, target, {"token": token}, is_portable=True)
        else:
            _request_token(location, target, dry_run=True)
            text = hosted_kubeconfig(location, target, {"exec": exec_plugin(location, target)})
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


def _kubeconfig_of_loops(location: HubLocation, loops: tuple[str, ...]) -> str:
    from shoal.assemble.commands.loop_kubeconfig import loop_kubeconfig, loop_tokens  # noqa: PLC0415
    from shoal.assemble.workers.join import hub_base_url  # noqa: PLC0415

    tokens = call_hub(*location, lambda client: loop_tokens(client, loops))
    hub = load_rest_config(find_hub_kubeconfig(*location))
    return yaml.safe_dump(loop_kubeconfig(hub_base_url(hub.server), hub.ca_pem, tokens), sort_keys=False)


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


def _request_token(location: HubLocation, target: TokenTarget, *, dry_run: bool = False) -> Object:
    """Returns the status of the TokenRequest. A dry run asks only whether there would be a token."""

    async def request(client: Client) -> Object:
        return await request_token(client, target, dry_run=dry_run)

    return call_hub(*location, request)


async def request_token(client: Client, target: TokenTarget, *, dry_run: bool = False) -> Object:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": target.ttl},
    }
    path = client.resource_path(MANAGED_CLUSTERS, target.name, target.namespace, "token")
    running = f"is it Running? kubectl get managedclusters -n {target.namespace}"
    try:
        response = await client.request("POST", path, {"dryRun": "All"} if dry_run else None, body=body)
    except NotFound:
        raise CommandError(f"there is no managed cluster {target}", running) from None
    except Forbidden as error:
        hint = "RBAC of the hub must allow create of managedclusters/token, and spec.access must mention you"
        raise CommandError(str(error), hint, EXIT_DENIED) from None
    except Unavailable as error:
        raise CommandError(f"{target} does not answer: {error}", running) from None
    status: Object = response["status"]
    return status


def exec_credential(status: Object) -> str:
    credential = {"token": status["token"], "expirationTimestamp": status["expirationTimestamp"]}
    return orjson.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": credential}).decode()


def exec_plugin(location: HubLocation, target: TokenTarget) -> Object:
    """Returns the command that kubectl runs for a token. It finds the hub as this command did."""
    program, directory = Path(sys.argv[0]), used_data_dir(*location)
    hub = (
        ("--data-dir", str(directory.absolute()))
        if directory is not None
        else ("--kubeconfig", str(find_hub_kubeconfig(*location).absolute()))
    )
    return {
        "apiVersion": EXEC_VERSION,
        "command": str(program.absolute()) if program.is_file() else "shoal",
        "args": ["kubeconfig", target.name, "-n", target.namespace, "-o", "exec-credential", *hub],
        "interactiveMode": "Never",
        "installHint": "This user needs the command shoal; shoal kubeconfig --ttl prints a kubeconfig that does not.",
    }


def hosted_kubeconfig(location: HubLocation, target: TokenTarget, user: Object, *, is_portable: bool = False) -> str:
    """Returns a kubeconfig with the address of the hub that this command calls. One that is portable never has the
    loopback address in place of the advertised one.
    """
    import ssl  # noqa: PLC0415  help does not need it

    from shoal.assemble.workers.join import hub_base_url  # noqa: PLC0415

    file = find_hub_kubeconfig(*location)
    with translate_hub_errors(file):
        hub = load_rest_config(file)
    address = ("" if is_portable else local_hub_url(*location)) or hub_base_url(hub.server)
    cluster: Object = {"server": address + infrav1.managed_cluster_path(target.namespace, target.name)}
    if hub.ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(hub.ca_pem.encode()).decode()
    if hub.server_name and address == hub_base_url(hub.server):
        cluster["tls-server-name"] = hub.server_name
    if hub.tls_context.verify_mode == ssl.CERT_NONE:
        cluster["insecure-skip-tls-verify"] = True
        cluster.pop("certificate-authority-data", None)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": target.name, "cluster": cluster}],
        "contexts": [{"name": target.name, "context": {"cluster": target.name, "user": f"{target.name}-user"}}],
        "current-context": target.name,
        "users": [{"name": f"{target.name}-user", "user": user}],
    }
    return yaml.safe_dump(config, sort_keys=False)
