"""Options of commands whose workers provide kind clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from shoal.kinds.fleet.kindhosting import image_version_error

Command = TypeVar("Command", bound=Callable[..., Any])


def _parse_images(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    images: dict[str, str] = {}
    for value in values:
        version, _, image = value.partition("=")
        error = image_version_error(version)
        if not image or image.strip() != image:
            error = "give a release and an image, such as v1.36.4=registry.example/node:v1.36.4"
        if error:
            raise click.BadParameter(f"{value}: {error}")
        images[version] = image
    return images


_OPTIONS = (
    click.option(
        "--kind",
        is_flag=True,
        help="Provide ManagedClusters with infrastructure kind, while kind and a container engine answer. Whoever may "
        "create them can become root of this machine.",
    ),
    click.option(
        "--kind-image",
        "kind_images",
        callback=_parse_images,
        multiple=True,
        metavar="VERSION=IMAGE",
        help="Node image of kind clusters with that version, instead of the one that kind publishes; repeatable.",
    ),
)


def kind_options(command: Command) -> Command:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def provided_kind_images(*, kind: bool, kind_images: Mapping[str, str]) -> Mapping[str, str] | None:
    """Returns the node images by release; None: no kind clusters are provided."""
    if kind_images and not kind:
        raise click.UsageError("--kind-image requires --kind")
    return kind_images if kind else None
