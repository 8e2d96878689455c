"""Commands beside the data directory of a hub reach it although its advertised address does not resolve."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from shoal.assemble.server.hub import HubWithWorkers, InProcessWorkers, ShoalServerSettings
from shoal.assemble.storage.datadir import loopback_url, read_loopback_url
from shoal.cli.main import shoal

ADVERTISED = "hub.does-not-exist.invalid"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:6443"),
        ("127.0.0.2", "https://127.0.0.2:6443"),
        ("localhost", "https://127.0.0.1:6443"),
        ("0.0.0.0", "https://127.0.0.1:6443"),
        ("::", "https://[::1]:6443"),
        ("::1", "https://[::1]:6443"),
        ("192.0.2.7", ""),
        ("hub.example.com", ""),
    ],
)
def test_where_it_listens_on_this_machine(host: str, url: str) -> None:
    assert loopback_url(host, 6443) == url


@pytest.mark.parametrize("value", ["hub:6443", "https://hub", "a b", "-", ""])
def test_names_that_no_certificate_can_have(value: str) -> None:
    result = CliRunner().invoke(shoal, ["hub", "--tls-san", value])
    assert result.exit_code == 2
    assert "give a host name or an address, without a port" in result.output


async def _served_names(port: int, ca: str, names: list[str]) -> dict[str, bool]:
    """Whether a client that expects the name accepts the certificate."""
    found = {}
    for name in names:
        context = ssl.create_default_context(cadata=ca)
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
        except ssl.SSLCertVerificationError:
            found[name] = False
        else:
            found[name] = True
            writer.close()
            await writer.wait_closed()
    return found


@pytest.mark.anyio
async def test_a_command_dials_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_KUBECONFIG", raising=False)
    directory = tmp_path / "data"
    settings = ShoalServerSettings(
        directory,
        host="0.0.0.0",
        port=0,
        advertise_address=ADVERTISED,
        tls_sans=("shoal-hub", "*.example.com", "192.0.2.7"),
    )
    up = await HubWithWorkers.start(settings, InProcessWorkers(0))
    try:
        port = up.hub.server.port
        assert read_loopback_url(directory) == f"https://127.0.0.1:{port}"
        (cluster,) = yaml.safe_load((directory / "kubeconfig").read_text())["clusters"]
        assert cluster["cluster"]["server"] == f"https://{ADVERTISED}:{port}"

        async def run(*arguments: str) -> tuple[int, str]:
            result = await asyncio.to_thread(CliRunner().invoke, shoal, list(arguments))
            return result.exit_code, result.output + str(result.exception or "")

        beside = ("--data-dir", str(directory))
        assert (await run("status", *beside))[0] == 0
        assert (await run("join-token", "list", *beside))[0] == 0
        code, said = await run("join-token", "create", *beside)
        assert (code, f"--hub https://{ADVERTISED}:{port}" in said) == (0, True)
        assert ADVERTISED not in (await run("doctor", *beside))[1]
        # A kubeconfig that is named is used as it is.
        code, said = await run("status", "--kubeconfig", str(directory / "kubeconfig"))
        assert code != 0
        assert ADVERTISED in said
        names = ["127.0.0.1", "localhost", ADVERTISED, "shoal-hub", "a.example.com", "192.0.2.7", "elsewhere"]
        accepted = await _served_names(port, up.hub.server.authority.certificate.decode(), names)
        assert accepted == {**dict.fromkeys(names, True), "elsewhere": False}
    finally:
        await up.stop()
