"""`shoal probe`: checks a hub from a client's place."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import click

from shoal.cli.doctor import result_lines
from shoal.cli.printers import output_option, print_output
from shoal.cli.progress import progress
from shoal.objects.duration import parse_duration


def _parse_urls(context: click.Context, argument: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        try:
            parts = urlsplit(value)
            is_usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is no number
            is_usable = False
        if not is_usable:
            raise click.BadParameter(f"{value!r}: give a URL such as https://10.0.0.1:6443")
    return values


def _parse_states(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    states: dict[str, Path] = {}
    for value in values:
        worker, separator, file = value.partition("=")
        if not (worker and separator and file):
            raise click.BadParameter(f"{value!r}: give a worker and a file, such as far=/etc/shoal/join/far/state")
        states[worker] = Path(file)
    return states


def _parse_timeout(context: click.Context, option: click.Parameter, value: str) -> float:
    seconds = parse_duration(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r}: give a duration such as 10s or 1m30s")
    return seconds


@click.command(name="probe")
@click.argument("urls", metavar="URL...", nargs=-1, required=True, callback=_parse_urls)
@click.option(
    "--join-state",
    "states",
    multiple=True,
    metavar="WORKER=FILE",
    callback=_parse_states,
    help="A worker and the key `state` of its join Secret as a file; may be given more than once.",
)
@click.option(
    "--timeout",
    default="0s",
    show_default=True,
    metavar="DURATION",
    callback=_parse_timeout,
    help="Time for which failed checks are repeated.",
)
@output_option()
def command(urls: tuple[str, ...], states: dict[str, Path], timeout: float, output: str) -> None:
    """Checks that a hub is ready at each URL, runs this version, and has a certificate for the host in the URL.

    Needs no credentials and takes the certificate authority from the hub. Exits with 1 if a check fails.
    """
    import asyncio  # noqa: PLC0415  help does not need it

    from shoal.assemble.commands.doctor import FAIL  # noqa: PLC0415  with the client, which loads for long
    from shoal.assemble.commands.probe import probe_until  # noqa: PLC0415

    with progress("checking"):
        results = asyncio.run(probe_until(urls, states, timeout))
    print_output([asdict(line) for line in results], result_lines(results), output)
    if any(line.state == FAIL for line in results):
        raise SystemExit(1)
