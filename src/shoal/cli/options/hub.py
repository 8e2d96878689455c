"""Options and errors of every command that calls a running hub.

A hub is found by `--kubeconfig`, `$SHOAL_KUBECONFIG`, then the data directory; never by `$KUBECONFIG`, which may well
name a production cluster.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from shoal.assemble.storage.datadir import default_data_dir, read_loopback_url
from shoal.cli.progress import progress
from shoal.objects.errors import Forbidden, ShoalError, Unauthorized

if TYPE_CHECKING:
    from shoal.client.rest import Client

T = TypeVar("T")
HubLocation = tuple[Path | None, Path | None]
"""The options --kubeconfig and --data-dir."""
EXIT_UNREACHABLE, EXIT_DENIED = 3, 4
"""Exit codes."""


class CommandError(ShoalError):
    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint, self.exit_code = hint, exit_code


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--data-dir", type=click.Path(path_type=Path), help="Data directory of Shoal. [$SHOAL_DATA_DIR]"),
        click.option(
            "--kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig of the hub. [$SHOAL_KUBECONFIG]"
        ),
    ):
        command = option(command)
    return command


def find_hub_kubeconfig(kubeconfig: Path | None, data_dir: Path | None) -> Path:
    if kubeconfig is not None:
        return kubeconfig
    directory = used_data_dir(kubeconfig, data_dir)
    if directory is None:
        return Path(os.environ["SHOAL_KUBECONFIG"])
    file = directory / "kubeconfig"
    if not file.exists():
        raise CommandError(
            f"there is no kubeconfig in {file.parent}", "start Shoal once: shoal up; or give --kubeconfig"
        )
    return file


def used_data_dir(kubeconfig: Path | None, data_dir: Path | None) -> Path | None:
    """Returns the data directory that a command runs beside; None if a kubeconfig names the hub."""
    if kubeconfig is not None or (data_dir is None and os.environ.get("SHOAL_KUBECONFIG")):
        return None
    return data_dir or default_data_dir(os.environ)


def local_hub_url(kubeconfig: Path | None, data_dir: Path | None) -> str:
    """Returns the loopback URL of the hub beside whose data directory a command runs; empty: the kubeconfig has its
    address.
    """
    directory = used_data_dir(kubeconfig, data_dir)
    return read_loopback_url(directory) if directory is not None else ""


def call_hub(
    kubeconfig: Path | None,
    data_dir: Path | None,
    request: Callable[[Client], Awaitable[T]],
    progress_text: str = "calling the hub",
) -> T:
    """Returns the result of `request`. Errors of the hub other than missing permissions are raised as StatusError.
    `progress_text` is shown while it takes long.
    """
    # Half of the time of help, which does not need it.
    import asyncio  # noqa: PLC0415
    from dataclasses import replace  # noqa: PLC0415

    from shoal.client.kubeconfig import load_rest_config, new_client  # noqa: PLC0415

    file = find_hub_kubeconfig(kubeconfig, data_dir)
    server = local_hub_url(kubeconfig, data_dir)

    async def run() -> T:
        config = load_rest_config(file)
        # Root is what the address of a hub stands for. Paths of hosted clusters are not below that of root.
        base = config.server.rstrip("/").removesuffix("/clusters/root")
        client = new_client(replace(config, server=server or base), "shoal")
        try:
            return await request(client)
        finally:
            await client.close()

    with translate_hub_errors(file), progress(progress_text):
        return asyncio.run(run())


@contextmanager
def translate_hub_errors(kubeconfig_file: Path | None) -> Iterator[None]:
    """Translates errors of hub calls within the context into CommandError, with hints for that kubeconfig; None: no
    kubeconfig.
    """
    from shoal.client.kubeconfig import KubeconfigError  # noqa: PLC0415
    from shoal.client.transport import Unreachable, is_certificate_error  # noqa: PLC0415

    try:
        yield
    except KubeconfigError as error:
        raise CommandError(str(error), "shoal kubeconfig prints the kubeconfig that shoal up wrote") from None
    except Unreachable as error:
        hint = (
            f"{kubeconfig_file} belongs to another hub, or to an earlier one"
            if is_certificate_error(error)
            else "start it: shoal up"
        )
        raise CommandError(f"the hub does not answer: {error}", hint, EXIT_UNREACHABLE) from None
    except (Unauthorized, Forbidden) as error:
        raise CommandError(str(error), f"check the credentials in {kubeconfig_file}", EXIT_DENIED) from None
