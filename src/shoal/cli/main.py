"""The `shoal` program: finds the command by name and imports only that one, so that help stays fast."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from shoal import __version__
from shoal.objects.errors import ShoalError, StoreError
from shoal.telemetry.logs import print_message

COMMANDS = {
    "up": "runs the hub, workers and all controllers in one process",
    "hub": "runs the API server and its controllers",
    "worker": "joins a hub and hosts control planes",
    "join-token": "manages the tokens with which other machines join as workers",
    "worker-bundle": "prints the manifests that run a worker in a cluster",
    "join-cluster": "registers an existing cluster as a workload Cluster of the hub",
    "syncer": "syncs one workload Cluster with the hub",
    "controllers": "runs loops of a hub, or controllers at any API server",
    "nodes": "simulates nodes at any API server",
    "provisioner": "provisions nodes for one cluster from Cluster API Machines",
    "crds": "prints Shoal's CustomResourceDefinitions",
    "apply": "applies manifests without kubectl",
    "backup": "writes a store to a file, also while it is served",
    "restore": "creates a store from a backup, in SQLite or etcd",
    "fsck": "checks a store and prints a remedy for each problem",
    "encrypt": "re-encrypts Secrets with the first encryption key",
    "rotate-ca": "rotates the keys of a cluster or the certificate authority of the server",
    "envtest": "writes replacements for envtest's kube-apiserver and etcd",
    "kubeconfig": "prints the kubeconfig of the hub's administrator or of a managed cluster",
    "status": "prints workers, clusters and workloads of the fleet",
    "top": "shows workers, clusters, replicas, nodes and cost, refreshed periodically",
    "tree": "prints the owners and dependents of an object, across clusters",
    "move": "moves a managed cluster to another worker",
    "explain": "explains why a managed cluster or a workload is placed or pending",
    "plan": "previews where manifests would be placed, without applying them",
    "logs": "prints the history of an object, or the log of a process on this machine",
    "doctor": "checks the prerequisites of Shoal on this machine",
    "probe": "checks from a client's place whether a hub is ready and its workers have joined",
    "completion": "prints the shell completion script",
    "reset": "removes a data directory",
    "demo": "builds a fleet, scales it, loses a worker, and cleans up",
}
COMPLETE_VARIABLE = "_SHOAL_COMPLETE"
"""The environment variable by which a shell requests completions."""
MIN_SIMILARITY = 0.75
"""From 0 to 1: how similar a mistyped word must be to a command to be suggested."""
EXIT_USAGE, EXIT_INTERRUPTED = 2, 130
NO_SPACE_HINT = "shoal doctor shows the free space; --data-dir DIR uses another directory"
_NO_SPACE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_PERMISSION_ERRNOS = (errno.EACCES, errno.EPERM, errno.EROFS)


class CommandGroup(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"shoal.cli.{name.replace('-', '')}").command
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Completes from the table, so that no command module is loaded."""
        item = click.shell_completion.CompletionItem
        items = [item(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return [*items, *click.Command.shell_complete(self, context, incomplete)]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=CommandGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shoal")
@click.pass_context
def shoal(context: click.Context) -> None:
    """A fleet of Kubernetes clusters behind one Kubernetes API."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    if sys.platform == "win32":
        fail("Windows is not supported natively", "run Shoal in WSL2")
    program = Path(sys.argv[0]).name
    if program.startswith("kubectl_complete-"):
        from shoal.cli import kubectl_complete  # noqa: PLC0415  only needed for kubectl completion

        raise SystemExit(kubectl_complete.main(shoal, sys.argv[1:]))
    name = "kubectl shoal" if program.startswith("kubectl-") else "shoal"
    try:
        code = shoal.main(prog_name=name, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
    except ShoalError as error:
        hint = getattr(error, "hint", "") or (
            NO_SPACE_HINT if isinstance(error, StoreError) and "disk" in str(error) else ""
        )
        fail(str(error), hint, getattr(error, "exit_code", 1))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        raise SystemExit(EXIT_USAGE) from None
    except click.UsageError as error:
        command_path = error.ctx.command_path if error.ctx is not None else name
        fail(error.format_message(), f"{_suggest_command(command_path) or command_path} --help", EXIT_USAGE)
    except click.ClickException as error:
        fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        raise SystemExit(EXIT_INTERRUPTED) from None
    except OSError as error:
        _fail_on_os_error(error)
    raise SystemExit(code if isinstance(code, int) else 0)


def fail(message: str, hint: str = "", exit_code: int = 1) -> NoReturn:
    """Prints the error, then the command to type, and exits."""
    print_message(message, error=True, hint=hint)
    raise SystemExit(exit_code)


def _suggest_command(command_path: str) -> str:
    """Returns the command that was probably meant; empty if the word is a command, or similar to none."""
    word = next((each for each in sys.argv[1:] if not each.startswith("-")), "")
    if word in COMMANDS or " " in command_path.removeprefix("kubectl "):
        return ""
    import difflib  # noqa: PLC0415  only needed after a typing error

    matches = difflib.get_close_matches(word, COMMANDS, 1, MIN_SIMILARITY)
    return f"{command_path} {matches[0]}" if matches else ""


def _fail_on_os_error(error: OSError) -> NoReturn:
    if error.errno == errno.EPIPE:
        # The reader has closed the pipe. Python's buffered output must not be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1)
    what = (error.strerror or str(error)).lower()
    where = f"{error.filename}: " if error.filename else ""
    hint = ""
    if error.errno in _NO_SPACE_ERRNOS:
        hint = NO_SPACE_HINT
    elif error.errno in _PERMISSION_ERRNOS:
        hint = "give a directory that you may write to, such as --data-dir ~/shoal"
    fail(f"{where}{what}", hint)


if __name__ == "__main__":
    main()
