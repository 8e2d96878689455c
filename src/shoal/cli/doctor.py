"""`shoal doctor`: checks what this machine has and lacks for Shoal."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.options.hub import CommandError, find_hub_kubeconfig, hub_options, local_hub_url
from shoal.cli.printers import output_option, print_output
from shoal.cli.progress import progress

if TYPE_CHECKING:
    from shoal.assemble.commands.doctor import CheckResult

DEFAULT_PORT = 6443


@click.command(name="doctor")
@click.option(
    "--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(1, 65535), help="Port that should be free."
)
@output_option()
@hub_options
def command(port: int, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Checks Python, kubectl, container engines, kind, etcd, the data directory, disk, ports, clock and versions.

    Each line is ok, warn or fail. Exits with 1 if a check fails, with 0 otherwise.
    """
    from shoal.assemble.commands.doctor import FAIL, run_checks  # noqa: PLC0415  with the client, which loads for long

    try:
        file: Path | None = find_hub_kubeconfig(kubeconfig, data_dir)
        server = local_hub_url(kubeconfig, data_dir)
    except CommandError:
        file, server = None, ""
    with progress("checking"):
        results = run_checks(data_dir or default_data_dir(os.environ), file, port, server)
    print_output([asdict(line) for line in results], result_lines(results), output)
    if any(line.state == FAIL for line in results):
        raise SystemExit(1)


def result_lines(results: list[CheckResult]) -> list[str]:
    width = max(len(line.name) for line in results)
    lines: list[str] = []
    for line in results:
        lines.append(f"{line.state:<4}  {line.name:<{width}}  {line.said}")
        if line.hint:
            lines.append(f"      {'':<{width}}  hint: {line.hint}")
    return lines
