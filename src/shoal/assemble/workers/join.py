"""The identity of a worker at its hub: a kubeconfig in its data directory, obtained with a join token and renewed.

`hub.kubeconfig` holds key and certificate, which change together. `hub.key` is a key without a certificate yet: a
worker that is killed while it joins continues with the same one. The token itself is not stored.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from shoal.assemble.storage.datadir import HUB_KUBECONFIG, DataDirError, write_private_file
from shoal.assemble.workers.join_tokens import (
    SHORT_TOKEN_SECONDS,
    JoinError,
    create_token,
    fetch_ca,
    matches_ca_cert_hash,
)
from shoal.client.kubeconfig import KubeconfigError, load_rest_config, new_client, parse, rest_config_of
from shoal.client.transport import RESTConfig, Unreachable, is_certificate_error
from shoal.clock import Clock
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.worker.identity.csr import ApprovalTimeout, CertificateDenied, CSRConflict, request_certificate
from shoal.fleet.worker.identity.keys import new_csr, new_key
from shoal.kinds.certificates.pem import not_after
from shoal.kinds.fleet import worker_join
from shoal.objects.errors import Forbidden, StatusError, Unauthorized

PENDING_KEY_FILE = "hub.key"
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


class HubMembership:
    def __init__(self, file: Path, worker: str, endpoint: RESTConfig, certificate: str) -> None:
        self._file, self._worker = file, worker
        self.endpoint = endpoint
        """Uses the worker's current certificate."""
        self.certificate = certificate

    def save_certificate(self, certificate: str, key: bytes) -> None:
        """Saves the certificate and uses it for new connections."""
        text = _render_kubeconfig(self.endpoint.server, self.endpoint.ca_pem, self._worker, certificate, key)
        write_private_file(self._file, text)
        _load_client_certificate(self.endpoint.tls_context, certificate.encode(), key)
        self.certificate = certificate


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
    hub = new_client(RESTConfig(resolved.server, _tls_context(resolved.authority), token), USER_AGENT)
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
    endpoint = RESTConfig(resolved.server, _tls_context(resolved.authority), "", resolved.authority)
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
        return _ResolvedHub(server, authority, target.token)
    endpoint = load_rest_config(target.kubeconfig)
    if not endpoint.ca_pem and endpoint.tls_context.verify_mode == ssl.CERT_NONE:
        raise KubeconfigError(f"{target.kubeconfig} has no certificate-authority, which a worker needs to join")
    bootstrap = endpoint.token if worker_join.parse_token(endpoint.token) is not None else ""
    return _ResolvedHub(hub_base_url(endpoint.server), endpoint.ca_pem, bootstrap, endpoint)


def hub_base_url(server: str) -> str:
    """Returns the base URL of the hub, given a URL of its root."""
    parts = urlsplit(server)
    return f"https://{parts.netloc}{parts.path.rstrip('/').removesuffix('/clusters/root')}"


def _matches_hub(membership: HubMembership, target: HubTarget) -> bool:
    """Returns whether the membership belongs to the given hub. The address of a hub may change, its certificate
    authority may not.
    """
    if target.kubeconfig is not None:
        endpoint = load_rest_config(target.kubeconfig)
        server, is_same = endpoint.server, endpoint.ca_pem == membership.endpoint.ca_pem
    elif target.address:
        server, is_same = target.address, matches_ca_cert_hash(membership.endpoint.ca_pem, target.ca_cert_hash)
    else:
        return True
    if is_same:
        old = membership.endpoint
        membership.endpoint = RESTConfig(hub_base_url(server), old.tls_context, old.token, old.ca_pem)
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
    return HubMembership(file, worker, endpoint, certificate)


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


def _tls_context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority or None)


def _load_client_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # Python reads client certificates from files only; this one is private and deleted at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _render_kubeconfig(server: str, authority: str, worker: str, certificate: str, key: bytes) -> str:
    user = worker_join.user_name(worker)
    credentials = {"client-certificate-data": _base64(certificate.encode()), "client-key-data": _base64(key)}
    ca_data = {"certificate-authority-data": _base64(authority.encode())} if authority else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server, **ca_data}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
        "current-context": "hub",
        "users": [{"name": user, "user": credentials}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
