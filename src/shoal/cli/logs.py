"""`shoal logs`: the timeline of an object, or the log of a process of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from shoal.assemble.storage.datadir import default_data_dir
from shoal.cli.options.hub import CommandError, call_hub, hub_options
from shoal.cli.printers import format_table, output_option, print_output
from shoal.cli.timeline import TimelineEntry, TimelineRequest, format_entry, print_timeline
from shoal.client.restmapper import NoKindMatchError
from shoal.objects.errors import NotFound

POLL_SECONDS = 0.2


@click.command(name="logs")
@click.argument("what", nargs=-1, metavar="[FILE | KIND NAME]")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the object.")
@click.option("-f", "--follow", is_flag=True, help="Follow new output until stopped.")
@click.option("--tail", type=click.IntRange(0), help="Print only the last lines.")
@output_option()
@hub_options
def command(
    what: tuple[str, ...],
    namespace: str,
    follow: bool,
    tail: int | None,
    output: str,
    kubeconfig: Path | None,
    data_dir: Path | None,
) -> None:
    """With KIND and NAME: prints the history of an object, oldest first, from its Events, conditions and errors. With
    the name of a log: prints that log. Without arguments: lists the logs in the data directory.

    The hub, and workers that were started by hand, log to standard error.
    """
    if len(what) > 2:
        raise click.UsageError("give the name of a log, or KIND and NAME")
    if len(what) == 2:
        if follow and output != "text":
            raise click.UsageError("-f requires -o text")
        _print_timeline(TimelineRequest(*what, namespace, follow, tail), output, kubeconfig, data_dir)
        return
    log_paths = log_files(data_dir or default_data_dir(os.environ))
    if not what:
        if not log_paths:
            raise CommandError(
                "there are no logs in the data directory", "shoal logs KIND NAME prints the history of an object"
            )
        for line in format_table([["LOG", "FILE"], *([name, str(file)] for name, file in log_paths.items())]):
            click.echo(line)
        return
    if what[0] not in log_paths:
        known = f"existing logs: {', '.join(log_paths)}" if log_paths else "the data directory has no logs"
        raise CommandError(
            f"there is no log {what[0]}", f"{known}; shoal logs KIND NAME prints the history of an object"
        )
    for text in read_log(log_paths[what[0]], tail, follow=follow):
        click.echo(text, nl=False)


def log_files(data_dir: Path) -> dict[str, Path]:
    """Returns logs by short name: of workers that the hub runs, and of local etcds."""
    paths = {file.parent.name: file for file in sorted(data_dir.glob("workers/*/worker.log"))}
    for file in sorted([*data_dir.glob("**/etcd.log")]):
        inside = file.relative_to(data_dir).parts
        paths["etcd" if inside[0] != "workers" else f"{inside[1]}-etcd"] = file
    return paths


def read_log(file: Path, tail: int | None, *, follow: bool) -> Iterator[str]:
    """A log that was truncated because its process restarted is read from its beginning."""
    with file.open("rb") as opened:
        lines = opened.read().decode(errors="replace").splitlines(keepends=True)
        position, inode = opened.tell(), os.fstat(opened.fileno()).st_ino
    yield "".join(lines if tail is None else lines[len(lines) - min(tail, len(lines)) :])
    while follow:
        time.sleep(POLL_SECONDS)
        if not file.exists():
            continue
        with file.open("rb") as opened:
            now = os.fstat(opened.fileno())
            if now.st_ino != inode or now.st_size < position:
                position, inode = 0, now.st_ino
            opened.seek(position)
            more = opened.read().decode(errors="replace")
            position = opened.tell()
        if more:
            yield more


def _print_timeline(request: TimelineRequest, output: str, kubeconfig: Path | None, data_dir: Path | None) -> None:
    def print_entry(entry: TimelineEntry) -> None:
        if output == "text":
            click.echo(format_entry(entry))

    try:
        entries = call_hub(
            kubeconfig, data_dir, lambda client: print_timeline(client, request, print_entry), progress_text=""
        )
    except NoKindMatchError as error:
        raise CommandError(str(error), error.hint) from None
    except NotFound as error:
        raise CommandError(str(error), "-n selects another namespace; shoal status shows the fleet") from None
    if output != "text":
        print_output([asdict(entry) for entry in entries], [], output)
