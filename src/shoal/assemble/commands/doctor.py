"""`shoal doctor`: checks what this machine has and lacks. Each check returns one result; none changes anything.

Measuring and judging are separate: the judging half of each check is a pure function.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import orjson

from shoal import __version__
from shoal.apiserver.cache.storage_form import CLUSTER_ANNOTATION
from shoal.apiserver.pki.former_ca import FORMER_CA
from shoal.assemble.storage.datadir import FORMAT_VERSION
from shoal.client.https import HttpsTransport
from shoal.client.kubeconfig import KubeconfigError, load_rest_config
from shoal.client.transport import Unreachable

Object = dict[str, Any]

OK, WARN, FAIL = "ok", "warn", "fail"
CSRS_PATH = "/clusters/*/apis/certificates.k8s.io/v1/certificatesigningrequests"
ENGINES = ("docker", "podman", "nerdctl")
MIN_PYTHON, MIN_ETCD = (3, 11), (3, 5, 13)
MEGABYTE = 1 << 20
MIN_DISK_BYTES, RECOMMENDED_DISK_BYTES = 200 * MEGABYTE, 2048 * MEGABYTE
RECOMMENDED_OPEN_FILES = 4096
PROGRAM_TIMEOUT_SECONDS, HUB_TIMEOUT_SECONDS = 10.0, 5.0
CLOCK_WARN_SECONDS, CLOCK_FAIL_SECONDS = 5.0, 60.0
"""Tolerated clock differences: leases are affected by the first, certificates and tokens by the second."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    state: str
    said: str
    hint: str = ""


def run_checks(data_dir: Path, kubeconfig: Path | None, port: int, server: str = "") -> list[CheckResult]:
    """Returns results in the order in which a person would check. `kubeconfig` is None if no hub was ever started
    here. `server` is the address of the hub if it is not that in the kubeconfig.
    """
    former_ca = data_dir / "pki" / FORMER_CA
    hub, csrs = asyncio.run(_check_hub(kubeconfig, server, list_csrs=former_ca.exists()))
    return [
        check_python(sys.version_info[:3]),
        *(engine_results([_check_engine(name) for name in ENGINES if shutil.which(name)])),
        _check_program(
            "kubectl",
            ("version", "--client", "-o", "json"),
            "shoal apply works without it; https://kubernetes.io/docs/tasks/tools/",
        ),
        _check_program("kind", ("version",), "for kind clusters: https://kind.sigs.k8s.io"),
        check_etcd(_version_of("etcd", ("--version",))),
        *_check_data_dir(data_dir),
        *(check_former_ca(former_ca.read_bytes(), csrs) if former_ca.exists() else ()),
        check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        _check_port(port, data_dir),
        *hub,
    ]


def check_python(version: Sequence[int]) -> CheckResult:
    text = ".".join(map(str, version))
    if tuple(version) < MIN_PYTHON:
        return CheckResult("python", FAIL, text, "Shoal needs Python 3.11 or newer")
    return CheckResult("python", OK, f"{text}, shoal {__version__}")


def engine_results(engines: Sequence[CheckResult]) -> list[CheckResult]:
    """One working engine is enough; the others are then not reported."""
    working = [line for line in engines if line.state == OK]
    if working:
        return working
    missing = CheckResult("engine", WARN, "no container engine", "for kind clusters: install Docker or Podman")
    return list(engines) or [missing]


def check_etcd(version: str | None) -> CheckResult:
    name, hint = "etcd", "--store etcd without --etcd-servers needs etcd 3.5.13 or newer"
    if version is None:
        return CheckResult(name, OK, "not installed; only needed for --store etcd")
    if _version_numbers(version) < MIN_ETCD:
        return CheckResult(name, WARN, version, hint)
    return CheckResult(name, OK, version)


def check_disk(free: int, where: Path) -> CheckResult:
    text = f"{free // MEGABYTE} MB free in {where}"
    if free < MIN_DISK_BYTES:
        return CheckResult(
            "disk", FAIL, text, "free disk space, or give another --data-dir: the store needs it for writes"
        )
    if free < RECOMMENDED_DISK_BYTES:
        return CheckResult("disk", WARN, text, "writes fail when the disk is full")
    return CheckResult("disk", OK, text)


def check_former_ca(certificate: bytes, csrs: Sequence[Object]) -> list[CheckResult]:
    """That authority signed certificates for tenants, with names of their choice. Clients that trust it may be
    deceived. The server still knows those whose requests were approved within the last hour.
    """
    hint = "hand out new kubeconfigs, then run: shoal rotate-ca --finish (docs/upgrading.md)"
    lines = [CheckResult("former CA", WARN, "kubeconfigs from before the upgrade are still accepted", hint)]
    for csr in csrs:
        names = _served_names(certificate, csr)
        if names:
            where = (csr["metadata"].get("annotations") or {}).get(CLUSTER_ANNOTATION, "root")
            text = f"request {csr['metadata']['name']} of cluster {where} got a certificate for {', '.join(names)}"
            lines.append(CheckResult("former CA", WARN, text, "clients that trust the former CA accept it"))
    return lines


def _served_names(authority: bytes, csr: Object) -> list[str]:
    """Returns the names of a serving certificate of that authority; empty for any other."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    try:
        pem = base64.b64decode((csr.get("status") or {})["certificate"])
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (KeyError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return []
    if ExtendedKeyUsageOID.SERVER_AUTH not in usages:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def check_open_files(limit: int) -> CheckResult:
    if limit < RECOMMENDED_OPEN_FILES and limit != resource.RLIM_INFINITY:
        hint = f"each client connection needs one: ulimit -n {RECOMMENDED_OPEN_FILES}"
        return CheckResult("open files", WARN, f"at most {limit}", hint)
    return CheckResult("open files", OK, "no limit" if limit == resource.RLIM_INFINITY else f"at most {limit}")


def check_clock(difference: float) -> CheckResult:
    """`difference` is how far our clock is ahead of the hub's, which is reported in whole seconds."""
    seconds, side = abs(difference), "ahead of" if difference > 0 else "behind"
    text = f"{seconds:.0f} s {side} the hub's"
    if seconds > CLOCK_FAIL_SECONDS:
        return CheckResult(
            "clock",
            FAIL,
            text,
            "certificates and tokens will be invalid: synchronize the clocks, for example with chrony",
        )
    if seconds > CLOCK_WARN_SECONDS:
        return CheckResult(
            "clock", WARN, text, "leases expire after 40 s: synchronize the clocks, for example with chrony"
        )
    return CheckResult("clock", OK, "in sync with the hub")


def check_hub_version(hub: str) -> CheckResult:
    """Takes the version of the hub, `v1.36.4+shoal-0.1.0`."""
    _, shoal, other = hub.partition("+shoal-")
    if not shoal:
        return CheckResult("hub", WARN, f"{hub}, not a Shoal server", "most shoal commands require a Shoal hub")
    if other != __version__:
        return CheckResult("hub", WARN, f"{hub}, but this is shoal {__version__}", "use the same version on both sides")
    return CheckResult("hub", OK, hub)


def _check_data_dir(path: Path) -> list[CheckResult]:
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    lines = [check_disk(shutil.disk_usage(existing).free, existing)]
    if not path.exists():
        is_writable = os.access(existing, os.W_OK)
        hint = "" if is_writable else "give a directory that you may write to: --data-dir DIR"
        return [*lines, CheckResult("data dir", OK if is_writable else FAIL, f"{path} does not exist yet", hint)]
    if not os.access(path, os.W_OK):
        return [
            *lines,
            CheckResult(
                "data dir", FAIL, f"{path} is not writable", "give a directory that you may write to: --data-dir DIR"
            ),
        ]
    stored_format = (path / "format").read_text().strip() if (path / "format").exists() else str(FORMAT_VERSION)
    if not stored_format.isdigit() or int(stored_format) > FORMAT_VERSION:
        said = f"{path} has data format {stored_format!r}, this shoal supports up to {FORMAT_VERSION}"
        return [*lines, CheckResult("data dir", FAIL, said, "use the newer shoal that wrote it")]
    holder = lock_holder(path)
    return [
        *lines,
        CheckResult("data dir", OK, f"{path}, " + (f"in use by process {holder}" if holder else "not in use")),
    ]


def lock_holder(path: Path) -> str:
    """Returns the process that has locked a data directory; empty: none."""
    if not (path / "lock").exists():
        return ""
    lock = os.open(path / "lock", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(lock, 32, 0).decode().strip() or "unknown"
    finally:
        os.close(lock)
    return ""


def _check_port(port: int, data_dir: Path) -> CheckResult:
    kept = data_dir / "port"
    if lock_holder(data_dir) and kept.exists():
        return CheckResult("port", OK, f"{kept.read_text().strip()}, used by the running server")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            if lock_holder(data_dir):
                return CheckResult("port", OK, f"{port}, used by the running server")
            why = os.strerror(error.errno or 0).lower()
            return CheckResult(
                "port", WARN, f"127.0.0.1:{port}: {why}", "shoal up --listen 127.0.0.1:0 chooses a free port"
            )
    return CheckResult("port", OK, f"{port} is free")


def _check_engine(name: str) -> CheckResult:
    form = "{{.Server.Version}}" if name == "docker" else "{{.Client.Version}}"
    output = _run_program(name, "version", "--format", form)
    if output.startswith("error: "):
        return CheckResult(
            name, WARN, output.removeprefix("error: "), f"start it, or give this user access to it: {name} info"
        )
    return CheckResult(name, OK, output)


def _check_program(name: str, arguments: tuple[str, ...], hint: str) -> CheckResult:
    version_text = _version_of(name, arguments)
    return (
        CheckResult(name, OK, version_text)
        if version_text is not None
        else CheckResult(name, WARN, "not installed", hint)
    )


def _version_of(name: str, arguments: tuple[str, ...]) -> str | None:
    if shutil.which(name) is None:
        return None
    output = _run_program(name, *arguments)
    match = re.search(r"v?\d+\.\d+\.\d+[\w.+-]*", output)
    return match[0] if match else output


def _run_program(*arguments: str) -> str:
    """Returns the output of a program; `error: ` and the last line of its output if it fails."""
    try:
        run = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=PROGRAM_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"error: {getattr(error, 'strerror', None) or 'no answer'}"
    if run.returncode:
        words = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return f"error: {words[-1]}"
    return run.stdout.strip()


def _version_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


async def _check_hub(
    kubeconfig: Path | None, server: str, *, list_csrs: bool
) -> tuple[list[CheckResult], list[Object]]:
    """Returns results, and if requested the CertificateSigningRequests of all clusters, as far as they can be read."""
    if kubeconfig is None:
        return [CheckResult("hub", WARN, "no kubeconfig in the data directory", "shoal up")], []
    try:
        endpoint = load_rest_config(kubeconfig)
    except KubeconfigError as error:
        return [CheckResult("hub", FAIL, str(error), "shoal kubeconfig prints the kubeconfig that shoal up wrote")], []
    authorization = {"authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
    transport = HttpsTransport(server or endpoint.server, endpoint.tls_context, HUB_TIMEOUT_SECONDS)
    try:
        sent_at = time.time()
        status, headers, body = await transport.request("GET", "/version", "", authorization, b"")
        midpoint = (sent_at + time.time()) / 2
        listed, csrs = 0, b""
        if list_csrs:
            listed, _, csrs = await transport.request("GET", CSRS_PATH, "", authorization, b"")
    except Unreachable as error:
        return [CheckResult("hub", WARN, str(error), "start it: shoal up")], []
    finally:
        await transport.close()
    if status != 200:
        return [CheckResult("hub", FAIL, f"status {status}", f"check the credentials in {kubeconfig}")], []
    lines = [check_hub_version(str(orjson.loads(body).get("gitVersion", "")))]
    if date := headers.get("date"):
        # Half a second: on average the hub's clock is that much ahead of the whole second it reports.
        lines.append(check_clock(midpoint - parsedate_to_datetime(date).timestamp() - 0.5))
    return lines, orjson.loads(csrs)["items"] if listed == 200 else []
