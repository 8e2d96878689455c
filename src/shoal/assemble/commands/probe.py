"""`shoal probe`: checks a hub from a client's place, without credentials, until all is well or time is up.

The certificate authority is taken from the hub itself. So this shows that the hub works, not that it is the right one.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from shoal import __version__
from shoal.apiserver.pki.ca import SERVER_NAME
from shoal.assemble.commands.doctor import FAIL, OK, CheckResult
from shoal.client.https import HttpsTransport
from shoal.client.tls import client_context
from shoal.client.transport import Unreachable
from shoal.fleet.join.join_secrets import JOINED
from shoal.kinds.fleet import worker_join

REQUEST_TIMEOUT_SECONDS, INTERVAL_SECONDS = 5.0, 1.0
DEFAULT_PORT = 443


async def probe_until(urls: Sequence[str], states: Mapping[str, Path], seconds: float) -> list[CheckResult]:
    """`urls` are the addresses of one hub. `states` are the files in which the hub writes the states of workers."""
    end = time.monotonic() + seconds
    while True:
        results = await probe(urls, states)
        if all(result.state == OK for result in results) or time.monotonic() >= end:
            return results
        await asyncio.sleep(INTERVAL_SECONDS)


async def probe(urls: Sequence[str], states: Mapping[str, Path]) -> list[CheckResult]:
    checks = [check for url in urls for check in await _check_address(url)]
    return [*checks, *(_check_worker(worker, file) for worker, file in states.items())]


async def _check_address(url: str) -> list[CheckResult]:
    host = urlsplit(url).hostname or ""
    try:
        ca_pem = await _download_ca(url)
        context = client_context(ca_pem, SERVER_NAME)
        transport = HttpsTransport(url, context, REQUEST_TIMEOUT_SECONDS)
        try:
            ready, _, reason = await transport.request("GET", "/readyz", "", {}, b"")
            _, _, version = await transport.request("GET", "/version", "", {}, b"")
        finally:
            await transport.close()
        names = await _certificate_names(url, context)
    except (Unreachable, OSError, ValueError) as error:
        return [CheckResult(url, FAIL, str(error) or "does not answer")]
    if ready != 200:
        return [CheckResult(url, FAIL, f"not ready: {reason.decode(errors='replace').strip()}")]
    return [check_version(url, version), check_name(url, host, names)]


def check_version(url: str, body: bytes) -> CheckResult:
    """The hub is of this release: the image of a chart was rolled out."""
    version = str(orjson.loads(body).get("gitVersion"))
    _, _, release = version.partition("+shoal-")
    if release != __version__:
        return CheckResult(url, FAIL, f"ready, but of version {version}; this is shoal {__version__}")
    return CheckResult(url, OK, f"ready, {version}")


def check_name(url: str, host: str, names: Sequence[str]) -> CheckResult:
    if host.lower() not in names:
        return CheckResult(url, FAIL, f"the certificate is not valid for {host}", "add it: --tls-san of the hub")
    return CheckResult(url, OK, f"the certificate is valid for {host}")


def _check_worker(worker: str, file: Path) -> CheckResult:
    name = f"worker {worker}"
    try:
        state = file.read_text().strip()
    except OSError:
        return CheckResult(name, FAIL, "the hub has not written its state yet")
    return CheckResult(name, OK if state == JOINED else FAIL, state)


async def _download_ca(url: str) -> str:
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    transport = HttpsTransport(url, unverified, REQUEST_TIMEOUT_SECONDS)
    try:
        status, _, body = await transport.request("GET", worker_join.CA_PATH, "", {}, b"")
    finally:
        await transport.close()
    if status != 200:
        raise Unreachable(f"not a Shoal hub: it does not serve {worker_join.CA_PATH}")
    return body.decode("ascii")


async def _certificate_names(url: str, context: ssl.SSLContext) -> list[str]:
    """Returns the names and addresses of the certificate for clients of the current authority."""
    parts = urlsplit(url)
    async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
        _, writer = await asyncio.open_connection(
            parts.hostname, parts.port or DEFAULT_PORT, ssl=context, server_hostname=SERVER_NAME
        )
    try:
        certificate = writer.get_extra_info("peercert")
        return [str(value).lower() for _, value in certificate.get("subjectAltName", ())]
    finally:
        writer.transport.abort()
