"""`shoal controllers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from shoal.cli.options.hub import CommandError
from shoal.cli.options.leader_election import leader_election_options
from shoal.cli.options.telemetry import telemetry_options
from shoal.client.transport import Unreachable
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.telemetry.logs import print_message

if TYPE_CHECKING:
    from shoal.assemble.commands.controllers import ControllersProcess

CONTROLLER_NAMES = ("capi", "kind", "importer", "fleet", "syncer", "splitter")
"""A copy of the names in `assemble.commands.controllers`, which loads more slowly than help may take."""
FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


def parse_controller_names(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    unknown = [name for name in names if name not in CONTROLLER_NAMES]
    if unknown or not names:
        raise click.BadParameter(f"{', '.join(unknown) or 'none'}: choose from {', '.join(CONTROLLER_NAMES)}")
    if "syncer" in names and "importer" not in names:
        raise click.BadParameter("syncer requires importer, which discovers the APIs of a cluster")
    return names


@click.command(name="controllers")
@click.option("--kubeconfig", type=FILE, required=True, help="Kubeconfig of any API server, not only of Shoal.")
@click.option("--context", default="", help="Context of the kubeconfig. [its current context]")
@click.option(
    "--loops",
    default="capi,kind",
    show_default=True,
    callback=parse_controller_names,
    metavar="A,B",
    help=f"Controllers to run, of {', '.join(CONTROLLER_NAMES)}.",
)
@click.option(
    "--hosting-kubeconfig", type=FILE, help="Kubeconfig of the root of a Shoal server that hosts EmbeddedClusters."
)
@click.option(
    "--sync-mode",
    type=click.Choice(["push", "pull", "none"]),
    help="Default sync mode of workload Clusters. [push with the syncer, none without it]",
)
@click.option(
    "--resources-to-sync",
    default=",".join(DEFAULT_RESOURCES),
    show_default=True,
    metavar="A,B",
    help="Resources that the importer imports from workload Clusters; * means all.",
)
@click.option(
    "--auto-publish-apis",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    show_default=True,
    help="Whether negotiated APIs are published without approval.",
)
@leader_election_options
@telemetry_options
def command(
    *,
    kubeconfig: Path,
    context: str,
    loops: tuple[str, ...],
    hosting_kubeconfig: Path | None,
    sync_mode: str | None,
    resources_to_sync: str,
    auto_publish_apis: bool,
    leader_elect: bool,
    leader_elect_namespace: str,
    health_address: tuple[str, int] | None,
) -> None:
    """Runs controllers against an API server until it is stopped. Their CRDs: shoal crds | kubectl apply -f -"""
    from shoal.assemble.commands.controllers import ControllersConfig, NotServed, run_controllers  # noqa: PLC0415

    mode = "push" if "syncer" in loops else "none"
    if sync_mode == "pull" and mode == "push":
        raise click.UsageError("--sync-mode pull excludes the syncer controller: shoal syncer runs in each cluster")
    if sync_mode not in (None, mode) and not (sync_mode == "pull" and mode == "none"):
        raise click.UsageError(f"--sync-mode {sync_mode} does not match --loops {','.join(loops)}")
    resources = tuple(name.strip() for name in resources_to_sync.split(",") if name.strip())
    config = ControllersConfig(
        loops,
        resources,
        auto_publish_apis,
        sync_mode or mode,
        leader_elect,
        leader_elect_namespace,
        health_address,
    )
    try:
        run_controllers(kubeconfig, context, hosting_kubeconfig, config, print_ready)
    except NotServed as error:
        chosen = f" --context {context}" if context else ""
        hint = f"shoal crds | kubectl --kubeconfig {kubeconfig}{chosen} apply -f -"
        raise CommandError(str(error), hint) from None
    except Unreachable as error:
        hint = f"check the address in {kubeconfig}"
        raise CommandError(f"the API server does not answer: {error}", hint, exit_code=3) from None
    except (Unauthorized, Forbidden) as error:
        raise CommandError(str(error), f"check the credentials in {kubeconfig}", exit_code=4) from None


def print_ready(running: ControllersProcess) -> None:
    print_message("controllers are running until this process ends")
