"""The identity of a worker at its hub: a kubeconfig in its data directory, obtained with a join token and renewed.

`hub.kubeconfig` holds key and certificate, which change together. `hub.key` is a key without a certificate yet: a
worker that is killed while it joins continues with the same one. The token itself is not stored.
"""

from __future__ import annotations

import base64
import logging
import ssl
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from shoal.apiserver.pki.ca import SERVER_NAME
from shoal.assemble.storage.datadir import HUB_KUBECONFIG, DataDirError, write_private_file
from shoal.assemble.workers.join_tokens import (
    MAX_CA_BYTES,
    SHORT_TOKEN_SECONDS,
    JoinError,
    ca_cert_hash,
    create_token,
    fetch_ca,
    matches_ca_cert_hash,
)
from shoal.client.kubeconfig import KubeconfigError, load_rest_config, new_client, parse, rest_config_of
from shoal.client.tls import client_context
from shoal.client.transport import RESTConfig, Unreachable, is_certificate_error
from shoal.clock import Clock
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.worker.identity.csr import ApprovalTimeout, CertificateDenied, CSRConflict, request_certificate
from shoal.fleet.worker.identity.keys import new_csr, new_key
from shoal.kinds.certificates.pem import not_after
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import Forbidden, StatusError, Unauthorized

log = logging.getLogger("shoal.fleet")

PENDING_KEY_FILE = "hub.key"
FORMER_CAS = "shoal.dev/former-authorities"
"""Extension in the kubeconfig: hashes of the authorities that the hub had before."""
USER_AGENT = "shoal-worker"
CHECK_TIMEOUT_SECONDS = 5.0
CREATE_TOKEN_HINT = "create a token at the hub: shoal join-token create"


@dataclass(frozen=True, slots=True)
class HubTarget:
    """How a worker finds its hub: by a kubeconfig, by address, token and hash, or not at all if it has joined
    before.
    """

    kubeconfig: Path | None = None
    address: str = ""
    token: str = field(default="", repr=False)
    ca_cert_hash: str = ""


@dataclass(frozen=True, slots=True)
class _ResolvedHub:
    """A hub whose address and certificate authority are known."""

    server: str
    authority: str
    token: str = field(default="", repr=False)
    """A join token; empty: `admin_endpoint` may create one."""
    admin_endpoint: RESTConfig | None = None
    server_name: str = ""
    """The name in the certificate of the hub. Empty: the host of its address."""

    def tls_context(self) -> ssl.SSLContext:
        return client_context(self.authority, self.server_name)


class HubMembership:
    def __init__(
        self, file: Path, worker: str, endpoint: RESTConfig, certificate: str, former_hashes: tuple[str, ...] = ()
    ) -> None:
        self._file, self._worker = file, worker
        self.endpoint = endpoint
        """Uses the worker's current certificate."""
        self.certificate = certificate
        self.former_hashes = former_hashes
        """Hashes of the authorities that the hub had before."""

    def save_certificate(self, certificate: str, key: bytes) -> None:
        """Saves the certificate and uses it for new connections."""
        self._save(certificate, key)
        _load_client_certificate(self.endpoint.tls_context, certificate.encode(), key)
        self.certificate = certificate

    async def refresh_hub_ca(self) -> None:
        """Takes over a new authority of the hub. The hub names it over a connection that the known one has verified.
        Without an answer nothing changes.
        """
        known = self.endpoint
        ca_pem = await _download_ca(known.server, known.tls_context)
        if not ca_pem or ca_pem == known.ca_pem:
            return
        try:
            self.former_hashes = (*self.former_hashes, ca_cert_hash(known.ca_pem))
            known.tls_context.load_verify_locations(cadata=ca_pem)
        except (ValueError, ssl.SSLError) as error:
            log.warning("the hub names an unusable certificate authority: %s", error)
            return
        server_name = await _server_name_for(known.server, ca_pem)
        self.endpoint = replace(known, ca_pem=ca_pem, server_name=server_name)
        user = parse(self._file.read_text(), str(self._file))["users"][0]["user"]
        self._save(self.certificate, base64.b64decode(user["client-key-data"]))
        log.info("using the new certificate authority of the hub")

    def _save(self, certificate: str, key: bytes) -> None:
        text = _render_kubeconfig(self.endpoint, self._worker, certificate, key, self.former_hashes)
        write_private_file(self._file, text)


def check_hub_target(target: HubTarget) -> None:
    """Raises KubeconfigError if the target is invalid, before anything is started."""
    if target.kubeconfig is not None:
        load_rest_config(target.kubeconfig)


async def ensure_membership(
    directory: Path, worker: str, target: HubTarget, store_id: str, clock: Clock
) -> HubMembership:
    """Uses the identity in the data directory if it belongs to that hub; joins otherwise. `store_id` is the ID of the
    worker's own store.
    """
    file = directory / HUB_KUBECONFIG
    membership = _load_membership(file, worker)
    if membership is not None and _matches_hub(membership, target):
        is_expired = (not_after(membership.certificate.encode()) or 0.0) <= clock.now()
        if not is_expired and await _is_accepted(membership.endpoint):
            return membership
        if target.kubeconfig is None and not target.token:
            reason = "has expired" if is_expired else "is no longer accepted"
            raise JoinError(
                f"the certificate of worker {worker} {reason}", f"{CREATE_TOKEN_HINT} --name {worker}", exit_code=4
            )
    elif target.kubeconfig is None and not target.token:
        raise JoinError("this worker has not joined a hub yet", CREATE_TOKEN_HINT)
    hub = await _resolve_hub(target)
    try:
        return await _join(file, worker, hub, store_id, clock)
    except CertificateDenied as error:
        raise JoinError(f"the hub refused worker {worker}: {error}", CREATE_TOKEN_HINT, exit_code=4) from None
    except ApprovalTimeout as error:
        raise JoinError(
            f"the hub does not admit worker {worker}: {error}", "check that the controllers of the hub are running"
        ) from None
    except Unreachable as error:
        hint = (
            "the kubeconfig belongs to another hub, or to an earlier one"
            if is_certificate_error(error)
            else "start it: shoal up"
        )
        raise JoinError(f"the hub does not answer: {error}", hint, exit_code=3) from None
    except Unauthorized:
        reason = "the join token has expired, was deleted or is invalid"
        raise JoinError(
            reason if hub.token else "the kubeconfig is not accepted", CREATE_TOKEN_HINT, exit_code=4
        ) from None
    except Forbidden as error:
        raise JoinError(str(error), CREATE_TOKEN_HINT, exit_code=4) from None


async def _join(file: Path, worker: str, resolved: _ResolvedHub, store: str, clock: Clock) -> HubMembership:
    token = resolved.token or await _create_own_token(resolved, worker, clock)
    pending = file.with_name(PENDING_KEY_FILE)
    hub = new_client(RESTConfig(resolved.server, resolved.tls_context(), token), USER_AGENT)
    try:
        key = _pending_key(pending)
        try:
            certificate = await request_certificate(hub, clock, key, worker, store)
        except CSRConflict:
            pending.unlink()
            key = _pending_key(pending)
            certificate = await request_certificate(hub, clock, key, worker, store)
    except CertificateDenied:
        pending.unlink(missing_ok=True)  # the decision on a CSR is final
        raise
    finally:
        await hub.close()
    endpoint = RESTConfig(resolved.server, resolved.tls_context(), "", resolved.authority, resolved.server_name)
    membership = HubMembership(file, worker, endpoint, certificate)
    membership.save_certificate(certificate, key)
    pending.unlink(missing_ok=True)
    return membership


async def _create_own_token(resolved: _ResolvedHub, worker: str, clock: Clock) -> str:
    assert resolved.admin_endpoint is not None
    hub = new_client(resolved.admin_endpoint, USER_AGENT)
    try:
        return await create_token(hub, clock.now(), SHORT_TOKEN_SECONDS, worker=worker)
    finally:
        await hub.close()


async def _resolve_hub(target: HubTarget) -> _ResolvedHub:
    if target.kubeconfig is None:
        server = hub_base_url(target.address)
        try:
            authority = await fetch_ca(server, target.ca_cert_hash)
        except Unreachable as error:
            raise JoinError(f"the hub does not answer: {error}", "check the address of the hub", exit_code=3) from None
        server_name = await _server_name_for(server, authority)
        return _ResolvedHub(server, authority, target.token, server_name=server_name)
    endpoint = load_rest_config(target.kubeconfig)
    if not endpoint.ca_pem and endpoint.tls_context.verify_mode == ssl.CERT_NONE:
        raise KubeconfigError(f"{target.kubeconfig} has no certificate-authority, which a worker needs to join")
    bootstrap = endpoint.token if worker_join.parse_token(endpoint.token) is not None else ""
    return _ResolvedHub(hub_base_url(endpoint.server), endpoint.ca_pem, bootstrap, endpoint, endpoint.server_name)


async def _server_name_for(server: str, ca_pem: str) -> str:
    """Returns the name to ask for, so that the hub presents a certificate of that authority. A hub whose authority was
    replaced presents one of the former to clients that do not ask.
    """
    try:
        await _request_ca(server, client_context(ca_pem))
    except Unreachable as error:
        return SERVER_NAME if is_certificate_error(error) else ""
    return ""


async def _download_ca(server: str, tls_context: ssl.SSLContext) -> str:
    """Returns the hub's authority as PEM; empty without an answer."""
    try:
        status, body = await _request_ca(server, tls_context)
    except Unreachable:
        return ""
    return body.decode("ascii", errors="replace") if status == 200 and len(body) <= MAX_CA_BYTES else ""


async def _request_ca(server: str, tls_context: ssl.SSLContext) -> tuple[int, bytes]:
    from shoal.client.https import HttpsTransport  # noqa: PLC0415

    transport = HttpsTransport(server, tls_context, CHECK_TIMEOUT_SECONDS)
    try:
        status, _, body = await transport.request("GET", worker_join.CA_PATH, "", {}, b"")
        return status, body
    finally:
        await transport.close()


def hub_base_url(server: str) -> str:
    """Returns the base URL of the hub, given a URL of its root."""
    parts = urlsplit(server)
    return f"https://{parts.netloc}{parts.path.rstrip('/').removesuffix('/clusters/root')}"


def _matches_hub(membership: HubMembership, target: HubTarget) -> bool:
    """Returns whether the membership belongs to the given hub. The address of a hub may change. Its certificate
    authority is the one that this worker knows, or knew before.
    """
    if target.kubeconfig is not None:
        endpoint = load_rest_config(target.kubeconfig)
        server = endpoint.server
        is_same = endpoint.ca_pem == membership.endpoint.ca_pem or (
            bool(membership.former_hashes) and ca_cert_hash(endpoint.ca_pem) in membership.former_hashes
        )
    elif target.address:
        server, known = target.address, membership.endpoint.ca_pem
        is_same = matches_ca_cert_hash(known, target.ca_cert_hash) or target.ca_cert_hash in membership.former_hashes
    else:
        return True
    if is_same:
        old = membership.endpoint
        membership.endpoint = replace(old, server=hub_base_url(server))
    return is_same


def _load_membership(file: Path, worker: str) -> HubMembership | None:
    if not file.exists():
        return None
    config = parse(file.read_text(), str(file))
    endpoint = rest_config_of(config, source=str(file))
    user = config["users"][0]
    if user["name"] != worker_join.user_name(worker):
        own = user["name"].removeprefix(worker_join.USER_PREFIX)
        message = f"{file.parent} belongs to worker {own}, not {worker}"
        raise DataDirError(message, f"give --name {own}, or another --data-dir")
    certificate = base64.b64decode(user["user"].get("client-certificate-data") or "").decode()
    extensions = config["clusters"][0]["cluster"].get("extensions") or ()
    hashes = next((each["extension"]["hashes"] for each in extensions if each.get("name") == FORMER_CAS), ())
    return HubMembership(file, worker, endpoint, certificate, tuple(hashes))


async def _is_accepted(endpoint: RESTConfig) -> bool:
    """Returns whether the hub accepts the worker's certificate. No answer counts as accepted."""
    hub = new_client(endpoint, USER_AGENT, CHECK_TIMEOUT_SECONDS)
    try:
        await hub.get(LOGICAL_CLUSTERS, "root")
    except Unauthorized:
        return False
    except (StatusError, Unreachable):
        return True
    finally:
        await hub.close()
    return True


def _pending_key(file: Path) -> bytes:
    if file.exists():
        key = file.read_bytes()
        try:
            new_csr(key, "w")
            return key
        except ValueError:
            pass  # not a usable key
    key = new_key()
    write_private_file(file, key.decode())
    return key


def _load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # Python reads client certificates from files only; this one is private and deleted at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _render_kubeconfig(
    endpoint: RESTConfig, worker: str, certificate: str, key: bytes, former_hashes: tuple[str, ...]
) -> str:
    user = worker_join.user_name(worker)
    credentials = {"client-certificate-data": _base64(certificate.encode()), "client-key-data": _base64(key)}
    cluster: dict[str, Any] = {"server": endpoint.server}
    if endpoint.ca_pem:
        cluster["certificate-authority-data"] = _base64(endpoint.ca_pem.encode())
    if endpoint.server_name:
        cluster["tls-server-name"] = endpoint.server_name
    if former_hashes:
        cluster["extensions"] = [{"name": FORMER_CAS, "extension": {"hashes": list(former_hashes)}}]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": cluster}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
        "current-context": "hub",
        "users": [{"name": user, "user": credentials}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
