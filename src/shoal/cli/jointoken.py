"""`shoal join-token`: tokens with which other machines join as workers."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from urllib.parse import urlsplit

import click

from shoal.assemble.datadir import kubeconfig as kubeconfig_text
from shoal.cli.asking import AskingError, ask, hub_kubeconfig, hub_options
from shoal.cli.printing import output_option, tell
from shoal.cli.status import table
from shoal.client.kubeconfig import KubeconfigError, load_endpoint
from shoal.client.requests import Client, Kind
from shoal.client.transport import Endpoint
from shoal.kinds import joining
from shoal.objects.duration import human, parse_duration
from shoal.objects.errors import NotFound

SECRETS = Kind("", "v1", "secrets")
SHORTEST, LONGEST = 60.0, 30 * 86_400.0


def duration(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None or not SHORTEST <= seconds <= LONGEST:
        raise click.BadParameter(f"{value}: give a time from 1m to 720h, such as 30m or 24h")
    return seconds


@click.group(name="join-token")
def command() -> None:
    """Tokens by which other machines join as workers. Each lets in one worker, once, and expires."""


@command.command(name="create")
@click.option("--name", default="", help="The one name it is good for. [any that no worker has]")
@click.option("--ttl", default="1h", show_default=True, callback=duration, help="How long it is good for.")
@click.option("--location", default="", help="Of the worker that joins with it.")
@click.option("--reusable", is_flag=True, help="Lets in any number of workers until it expires.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["command", "token", "kubeconfig"]),
    default="command",
    show_default=True,
    help="The command to type on the other machine, the token alone, or a kubeconfig for --hub-kubeconfig.",
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
    """Makes a token, and prints the command that joins with it."""
    # It loads more slowly than help may take.
    from shoal.assemble.jointokens import authority_hash, create_token  # noqa: PLC0415
    from shoal.assemble.membership import base_of  # noqa: PLC0415

    wrong = joining.wrong_name(name) if name else ""
    if wrong:
        raise click.UsageError(f"--name {name}: {wrong}")
    if name and reusable:
        raise click.UsageError("--reusable goes without --name: one name is one worker")
    file = hub_kubeconfig(kubeconfig, data_dir)
    hub = _endpoint(file)

    async def make(client: Client) -> str:
        return await create_token(client, time.time(), ttl, worker=name, location=location, reusable=reusable)

    token = ask(file, None, make)
    server = base_of(hub.server)
    options = [*(("--name", name) if name else ()), *(("--location", location) if location else ())]
    if output == "token":
        click.echo(token)
    elif output == "kubeconfig":
        click.echo(kubeconfig_text(server, hub.authority.encode(), token, "shoal-join"), nl=False)
        click.echo(f"next: shoal worker --hub-kubeconfig FILE {shlex.join(options)}".rstrip(), err=True)
    else:
        given = ["--hub", server, "--token", token, "--ca-hash", authority_hash(hub.authority)]
        click.echo(shlex.join(["shoal", "worker", *given, *options]))
    if urlsplit(server).hostname in ("127.0.0.1", "localhost", "::1"):
        click.echo(
            f"note: {server} is reached from this machine only; for others, start the hub with "
            "--listen 0.0.0.0:6443 --advertise-address HOST",
            err=True,
        )


def _endpoint(file: Path) -> Endpoint:
    try:
        hub = load_endpoint(file)
    except KubeconfigError as error:
        raise AskingError(str(error)) from None
    if not hub.authority:
        raise AskingError(f"{file} has no certificate-authority: a worker could not tell the hub from another")
    return hub


@command.command(name="list")
@output_option()
@hub_options
def list_(output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """The tokens there are, by their ids; what is secret of them is not shown."""

    async def look(client: Client) -> list[joining.Token]:
        fields = f"type={joining.TOKEN_TYPE}"
        found, _ = await client.list_all(SECRETS, joining.TOKEN_NAMESPACE, fields=fields)
        return [token for secret in found if (token := joining.read_token(secret)) is not None and token.joins]

    tokens = ask(kubeconfig, data_dir, look)
    if not tokens:
        click.echo("there are no join tokens", err=True)
    rows = [_row(token) for token in tokens]
    tell(rows, table(rows), output)


def _row(token: joining.Token) -> dict[str, str]:
    left = human(token.expires - time.time()) if token.expires is not None else "never"
    used = f"by {token.used_by}" if token.used_by else "no"
    return {
        "id": token.id,
        "for": token.worker or "any",
        "expires": "expired" if token.has_expired(time.time()) else left,
        "used": f"{used}, reusable" if token.reusable else used,
        "location": token.location or "-",
    }


@command.command(name="delete")
@click.argument("token")
@hub_options
def delete(token: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Takes TOKEN back: an id, or all of a token. A worker that has joined with it stays."""
    id_ = token.partition(".")[0]
    if len(id_) != joining.ID_LENGTH or set(id_) - set(joining.LETTERS):
        raise click.UsageError("give the id of a join token, six letters or digits, as shoal join-token list shows it")

    async def take(client: Client) -> None:
        await client.delete(SECRETS, joining.secret_name(id_), joining.TOKEN_NAMESPACE)

    try:
        ask(kubeconfig, data_dir, take)
    except NotFound:
        raise AskingError(f"there is no join token {id_}", "shoal join-token list") from None
    click.echo(f"join token {id_} is gone", err=True)
