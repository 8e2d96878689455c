"""`shoal fsck`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.options.store import data_dir_option, data_dir_or_default, store_options, store_settings
from shoal.cli.printers import output_option, print_output
from shoal.cli.progress import progress

if TYPE_CHECKING:
    from shoal.assemble.commands.fsck import FsckResult


@click.command(name="fsck")
@click.option(
    "--backup",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Check this backup instead of a store.",
)
@output_option()
@data_dir_option
@store_options
def command(backup: Path | None, output: str, data_dir: Path | None, **store: Any) -> None:
    """Checks all of a store, and prints a remedy for each problem. Changes nothing.

    Exits with 1 if there are problems. A server may be running.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.commands.fsck import fsck, fsck_backup  # noqa: PLC0415

    settings = store_settings(**store)
    with progress("checking"):
        result = fsck_backup(backup, settings) if backup else fsck(data_dir_or_default(data_dir), settings)
    print_output(_result_object(result), _result_lines(result), output)
    if not result.is_sound:
        raise SystemExit(1)


def _result_lines(result: FsckResult) -> Iterator[str]:
    for finding in result.findings:
        yield f"{'problem' if finding.is_problem else 'note'}: {finding.sentence()}"
        yield f"  {finding.remedy}"
    if result.store_id:
        about = f"{result.kind} store {result.store_id} at revision {result.revision}"
        sealed = f", {result.encrypted} of them encrypted" if result.encrypted else ""
        yield f"{about}: {result.records} records{sealed}; {'sound' if result.is_sound else 'not sound'}"


def _result_object(result: FsckResult) -> dict[str, Any]:
    return {
        "sound": result.is_sound,
        "store": result.store_id,
        "kind": result.kind,
        "revision": result.revision,
        "records": result.records,
        "encrypted": result.encrypted,
        "findings": [
            {
                "problem": each.is_problem,
                "what": each.message,
                "todo": each.remedy,
                "keys": each.keys,
                "count": each.count,
            }
            for each in result.findings
        ],
    }
