"""`shoal join-token`: tokens with which other machines join as workers."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from urllib.parse import urlsplit

import click

from shoal.assemble.storage.datadir import render_kubeconfig as kubeconfig_text
from shoal.cli.options.hub import CommandError, call_hub, find_hub_kubeconfig, hub_options
from shoal.cli.printers import output_option, print_output
from shoal.cli.status import format_rows
from shoal.client.kubeconfig import KubeconfigError, load_rest_config
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import RESTConfig
from shoal.kinds.fleet import worker_join
from shoal.objects.duration import human_duration, parse_duration
from shoal.objects.errors import NotFound

SECRETS = GroupVersionResource("", "v1", "secrets")
MIN_TTL_SECONDS, MAX_TTL_SECONDS = 60.0, 30 * 86_400.0


def parse_ttl(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None or not MIN_TTL_SECONDS <= seconds <= MAX_TTL_SECONDS:
        raise click.BadParameter(f"{value}: give a duration from 1m to 720h, such as 30m or 24h")
    return seconds


@click.group(name="join-token")
def command() -> None:
    """Manages tokens with which other machines join as workers. A token admits one worker, once, and expires."""


@command.command(name="create")
@click.option("--name", default="", help="The only Worker name the token is valid for. [any unused name]")
@click.option("--ttl", default="1h", show_default=True, callback=parse_ttl, help="Time until the token expires.")
@click.option("--location", default="", help="Location of the Worker that joins with it.")
@click.option("--reusable", is_flag=True, help="Allow any number of Workers to join until it expires.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["command", "token", "kubeconfig"]),
    default="command",
    show_default=True,
    help="Print the command for the other machine, only the token, or a kubeconfig for --hub-kubeconfig.",
)
@hub_options
def create(
    name: str,
    ttl: float,
    location: str,
    reusable: bool,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """Creates a token, and prints the command that joins with it."""
    # It loads more slowly than help may take.
    from shoal.assemble.workers.join import hub_base_url  # noqa: PLC0415
    from shoal.assemble.workers.join_tokens import ca_cert_hash, create_token  # noqa: PLC0415

    invalid_name = worker_join.name_error(name) if name else ""
    if invalid_name:
        raise click.UsageError(f"--name {name}: {invalid_name}")
    if name and reusable:
        raise click.UsageError("--reusable cannot be used with --name")
    file = find_hub_kubeconfig(kubeconfig, data_dir)
    hub = _load_hub_endpoint(file)

    async def make(client: Client) -> str:
        return await create_token(client, time.time(), ttl, worker=name, location=location, reusable=reusable)

    token = call_hub(kubeconfig, data_dir, make)
    server = hub_base_url(hub.server)
    options = [*(("--name", name) if name else ()), *(("--location", location) if location else ())]
    if output == "token":
        click.echo(token)
    elif output == "kubeconfig":
        click.echo(kubeconfig_text(server, hub.ca_pem.encode(), token, "shoal-join", hub.server_name), nl=False)
        click.echo(f"next: shoal worker --hub-kubeconfig FILE {shlex.join(options)}".rstrip(), err=True)
    else:
        hub_arguments = ["--hub", server, "--token", token, "--ca-hash", ca_cert_hash(hub.ca_pem)]
        click.echo(shlex.join(["shoal", "worker", *hub_arguments, *options]))
    if urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1"):
        click.echo(
            f"note: {server} is reachable from this machine only; for others, start the hub with "
            "--listen 0.0.0.0:6443 --advertise-address HOST",
            err=True,
        )


def _load_hub_endpoint(file: Path) -> RESTConfig:
    try:
        hub = load_rest_config(file)
    except KubeconfigError as error:
        raise CommandError(str(error)) from None
    if not hub.ca_pem:
        raise CommandError(f"{file} has no certificate-authority: a worker could not verify the hub")
    return hub


@command.command(name="list")
@output_option()
@hub_options
def list_(output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Lists the ids of the tokens, without their secrets."""

    async def list_tokens(client: Client) -> list[worker_join.BootstrapToken]:
        fields = f"type={worker_join.TOKEN_SECRET_TYPE}"
        found, _ = await client.list_all(SECRETS, worker_join.TOKEN_NAMESPACE, fields=fields)
        return [
            token
            for secret in found
            if (token := worker_join.token_from_secret(secret)) is not None and token.is_join_token
        ]

    tokens = call_hub(kubeconfig, data_dir, list_tokens)
    if not tokens:
        click.echo("there are no join tokens", err=True)
    rows = [_token_row(token) for token in tokens]
    print_output(rows, format_rows(rows), output)


def _token_row(token: worker_join.BootstrapToken) -> dict[str, str]:
    remaining = human_duration(token.expires_at - time.time()) if token.expires_at is not None else "never"
    used = f"by {token.used_by}" if token.used_by else "no"
    return {
        "id": token.id,
        "for": token.worker or "any",
        "expires": "expired" if token.is_expired(time.time()) else remaining,
        "used": f"{used}, reusable" if token.reusable else used,
        "location": token.location or "-",
    }


@command.command(name="delete")
@click.argument("token")
@hub_options
def delete(token: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Deletes TOKEN, an id or a full token. Workers that have joined with it stay."""
    id_ = token.partition(".")[0]
    if len(id_) != worker_join.ID_LENGTH or set(id_) - set(worker_join.TOKEN_ALPHABET):
        raise click.UsageError("give the id of a join token (6 letters or digits), as shoal join-token list prints it")

    async def delete_token(client: Client) -> None:
        await client.delete(SECRETS, worker_join.secret_name(id_), worker_join.TOKEN_NAMESPACE)

    try:
        call_hub(kubeconfig, data_dir, delete_token)
    except NotFound:
        raise CommandError(f"there is no join token {id_}", "shoal join-token list") from None
    click.echo(f"join token {id_} deleted", err=True)
