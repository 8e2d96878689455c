"""`shoal fsck`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shoal.cli.printing import output_option, tell
from shoal.cli.progress import progress
from shoal.cli.storing import data_dir_option, data_dir_or_default, store_options, store_settings

if TYPE_CHECKING:
    from shoal.assemble.fsck import Checked


@click.command(name="fsck")
@click.option(
    "--backup", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Of a backup, in place of a store."
)
@output_option()
@data_dir_option
@store_options
def command(backup: Path | None, output: str, data_dir: Path | None, **store: Any) -> None:
    """Reads all of a store and says what is wrong with it, and what to do; changes nothing.

    Exit code 1: there are problems. A server may run meanwhile.
    """
    # The server takes a second to load, and help does not need it.
    from shoal.assemble.fsck import fsck, fsck_backup  # noqa: PLC0415

    settings = store_settings(**store)
    with progress("checking"):
        checked = fsck_backup(backup, settings) if backup else fsck(data_dir_or_default(data_dir), settings)
    tell(_found(checked), _lines(checked), output)
    if not checked.sound:
        raise SystemExit(1)


def _lines(checked: Checked) -> Iterator[str]:
    for finding in checked.findings:
        yield f"{'problem' if finding.problem else 'note'}: {finding.sentence()}"
        yield f"  {finding.todo}"
    if checked.store:
        about = f"{checked.kind} store {checked.store} at revision {checked.revision}"
        sealed = f", {checked.encrypted} of them encrypted" if checked.encrypted else ""
        yield f"{about}: {checked.records} records{sealed}; {'sound' if checked.sound else 'not sound'}"


def _found(checked: Checked) -> dict[str, Any]:
    return {
        "sound": checked.sound,
        "store": checked.store,
        "kind": checked.kind,
        "revision": checked.revision,
        "records": checked.records,
        "encrypted": checked.encrypted,
        "findings": [
            {"problem": each.problem, "what": each.what, "todo": each.todo, "keys": each.keys, "count": each.count}
            for each in checked.findings
        ],
    }
