"""Options of every command that opens a store: which one, and how it is encrypted."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import default_data_dir

STORE_OPTIONS = (
    click.option(
        "--store",
        type=click.Choice(["sqlite", "etcd"]),
        help="Type of the store. [default: sqlite; etcd if --etcd-servers is given]",
    ),
    click.option(
        "--etcd-servers",
        default="",
        metavar="URLS",
        help="URLs of an etcd cluster, comma-separated; if empty, starts a local etcd.",
    ),
    click.option("--etcd-prefix", default="/shoal", show_default=True, help="Key prefix of the store in etcd."),
    click.option("--etcd-cafile", default="", metavar="FILE", help="Certificate authority of etcd."),
    click.option("--etcd-certfile", default="", metavar="FILE", help="Client certificate for etcd."),
    click.option("--etcd-keyfile", default="", metavar="FILE", help="Key of the client certificate."),
    click.option("--etcd-username", default="", metavar="NAME", help="User name for etcd authentication."),
    click.option(
        "--etcd-password-file", type=click.Path(path_type=Path), help="File that contains the password of that user."
    ),
    click.option(
        "--encryption-key-file",
        default="",
        metavar="FILE",
        help="Keys that encrypt Secrets in the store: base64, one per line; the first encrypts, all decrypt.",
    ),
    click.option(
        "--encrypted-kinds",
        default="secrets",
        show_default=True,
        metavar="A,B",
        help="Resources to encrypt: secrets, configmaps, RESOURCE.GROUP; none only decrypts.",
    ),
)
data_dir_option = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Directory of the store. [$SHOAL_DATA_DIR]"
)


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(STORE_OPTIONS):
        command = option(command)
    return command


def store_settings(
    *,
    store: str | None,
    etcd_servers: str,
    etcd_prefix: str,
    etcd_cafile: str,
    etcd_certfile: str,
    etcd_keyfile: str,
    etcd_username: str,
    etcd_password_file: Path | None,
    encryption_key_file: str = "",
    encrypted_kinds: str = "secrets",
) -> StoreSettings:
    """Returns the settings of the store. Raises UsageError if the flags are invalid."""
    encryption = encryption_key_file, _parse_kinds(encrypted_kinds)
    etcd_credentials = (etcd_cafile, etcd_certfile, etcd_keyfile, etcd_username, etcd_password_file)
    urls = tuple(url.strip().rstrip("/") for url in etcd_servers.split(",") if url.strip())
    if store != "etcd" and not (store is None and urls):
        if urls or any(etcd_credentials):
            raise click.UsageError("--etcd-... flags require --store etcd")
        return StoreSettings("sqlite", (), "/shoal", "", "", "", "", "", *encryption)
    invalid_urls = [url for url in urls if not url.startswith(("http://", "https://")) or not urlsplit(url).hostname]
    if invalid_urls:
        raise click.UsageError(f"--etcd-servers {invalid_urls[0]}: give URLs such as https://10.0.0.1:2379")
    if not urls and any(etcd_credentials):
        raise click.UsageError("--etcd-servers is required: a local etcd uses no certificates and no user")
    if len({url.partition(":")[0] for url in urls}) > 1:
        raise click.UsageError("--etcd-servers: either all URLs must be https:// or none")
    if bool(etcd_certfile) != bool(etcd_keyfile):
        raise click.UsageError("--etcd-certfile and --etcd-keyfile require each other")
    if bool(etcd_username) != bool(etcd_password_file):
        raise click.UsageError("--etcd-username and --etcd-password-file require each other")
    if not etcd_prefix.strip("/"):
        raise click.UsageError("--etcd-prefix must not be empty")
    password = etcd_password_file.read_text().strip() if etcd_password_file else ""
    return StoreSettings("etcd", urls, "/" + etcd_prefix.strip("/"), *etcd_credentials[:4], password, *encryption)


def _parse_kinds(text: str) -> tuple[str, ...]:
    """`secrets` is core/secrets, `widgets.example.com` is example.com/widgets; the form of store keys is accepted
    too.
    """
    if text == "none":
        return ()
    kinds = []
    for name in filter(None, map(str.strip, text.split(","))):
        plural, _, group = name.partition(".")
        kinds.append(name if "/" in name else f"{group or 'core'}/{plural}")
    if not kinds:
        raise click.UsageError("--encrypted-kinds is empty; leave out --encryption-key-file to encrypt nothing")
    return tuple(kinds)


def data_dir_or_default(data_dir: Path | None) -> Path:
    return data_dir or default_data_dir(os.environ)
