"""`shoal doctor`: checks what this machine has and lacks for Shoal."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.assemble.datadir import default_data_dir
from shoal.cli.asking import AskingError, hub_kubeconfig, hub_options
from shoal.cli.printing import output_option, tell
from shoal.cli.progress import progress

if TYPE_CHECKING:
    from shoal.assemble.doctor import Line

PORT = 6443


@click.command(name="doctor")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(1, 65535), help="That is to be free.")
@output_option()
@hub_options
def command(port: int, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    """Looks at Python, kubectl, container engines, kind, etcd, the data directory, disk, ports, clock and versions.

    Each line is ok, warn or fail. Ends with 1 where something fails, with 0 otherwise.
    """
    from shoal.assemble.doctor import FAIL, examine  # noqa: PLC0415  with the client, which loads for long

    try:
        file: Path | None = hub_kubeconfig(kubeconfig, data_dir)
    except AskingError:
        file = None
    with progress("looking around"):
        found = examine(data_dir or default_data_dir(os.environ), file, port)
    tell([asdict(line) for line in found], text(found), output)
    if any(line.state == FAIL for line in found):
        raise SystemExit(1)


def text(found: list[Line]) -> list[str]:
    width = max(len(line.name) for line in found)
    lines: list[str] = []
    for line in found:
        lines.append(f"{line.state:<4}  {line.name:<{width}}  {line.said}")
        if line.hint:
            lines.append(f"      {'':<{width}}  hint: {line.hint}")
    return lines
