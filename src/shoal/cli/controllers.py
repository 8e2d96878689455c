"""`shoal controllers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from shoal.cli.options.hub import CommandError
from shoal.cli.options.leader_election import leader_election_options
from shoal.cli.options.loops import LOOP_NAMES, parse_loop_names
from shoal.cli.options.serve import bus_options, egress_option, parse_bus
from shoal.cli.options.telemetry import telemetry_options
from shoal.client.transport import Unreachable
from shoal.kinds.rbac.loop_accounts import HUB_ONLY_LOOPS
from shoal.kinds.workload.workloadcluster import DEFAULT_RESOURCES
from shoal.objects.egress import EgressSettings
from shoal.objects.errors import Forbidden, Unauthorized
from shoal.telemetry.logs import print_message

if TYPE_CHECKING:
    from shoal.assemble.commands.controllers import ControllersProcess

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
HUB_FLAGS = ("sync_mode", "resources_to_sync", "auto_publish_apis")
"""Options that a hub has itself."""


@click.command(name="controllers")
@click.option(
    "--kubeconfig",
    type=FILE,
    required=True,
    help="Kubeconfig of a Shoal hub (shoal kubeconfig --loops A,B), or of any other API server.",
)
@click.option(
    "--context", default="", help="Context of the kubeconfig. [that of the loop's account, or its current context]"
)
@click.option(
    "--loops",
    default="capi,kind",
    show_default=True,
    callback=parse_loop_names,
    metavar="A,B",
    help=f"Loops to run, of {LOOP_NAMES}; {', '.join(HUB_ONLY_LOOPS)} at a Shoal hub only.",
)
@click.option(
    "--hosting-kubeconfig", type=FILE, help="Kubeconfig of the root of a Shoal server that hosts EmbeddedClusters."
)
@click.option(
    "--sync-mode",
    type=click.Choice(["push", "pull", "none"]),
    help="Default sync mode of workload Clusters. [that of the hub; elsewhere push with the syncer, none without it]",
)
@click.option(
    "--resources-to-sync",
    default=",".join(DEFAULT_RESOURCES),
    show_default=True,
    metavar="A,B",
    help="Resources to import from workload Clusters and to sync to them; * means all. A hub has its own setting.",
)
@click.option(
    "--auto-publish-apis",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    show_default=True,
    help="Whether negotiated APIs are published without approval. A hub has its own setting.",
)
@bus_options
@egress_option
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
    bus: str,
    bus_creds: Path | None,
    egress: EgressSettings,
    leader_elect: bool,
    leader_elect_namespace: str,
    health_address: tuple[str, int] | None,
) -> None:
    """Runs loops until it is stopped: those that a Shoal hub leaves out (shoal hub --no-loops), or controllers at
    another API server. Their CRDs: shoal crds | kubectl apply -f -
    """
    from shoal.assemble.commands.controllers import ControllersConfig, NotServed, run_controllers  # noqa: PLC0415

    given = click.get_current_context().get_parameter_source
    hub_flags = tuple(f"--{name.replace('_', '-')}" for name in HUB_FLAGS if given(name) is ParameterSource.COMMANDLINE)
    resources = tuple(name.strip() for name in resources_to_sync.split(",") if name.strip())
    config = ControllersConfig(
        loops,
        resources,
        auto_publish_apis,
        sync_mode or "",
        leader_elect,
        leader_elect_namespace,
        health_address,
        egress,
        parse_bus(bus, bus_creds),
        hub_flags,
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
