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

from shoal.assemble.datadir import HUB_KUBECONFIG, DataDirError, write_private
from shoal.assemble.jointokens import SELF_TOKEN_SECONDS, JoinError, create_token, fetch_authority, is_of_hash
from shoal.client.kubeconfig import KubeconfigError, client_to, endpoint_of, load_endpoint, parse
from shoal.client.transport import Endpoint, Unreachable, distrusts
from shoal.clock import Clock
from shoal.fleet.resources import LOGICAL_CLUSTERS
from shoal.fleet.worker.identity.asking import AskedBefore, Refused, Undecided, certified
from shoal.fleet.worker.identity.keys import certificate_request, new_key
from shoal.kinds import joining
from shoal.kinds.certificate_requests import not_after
from shoal.objects.errors import Forbidden, StatusError, Unauthorized

PENDING = "hub.key"
AGENT = "shoal-worker"
LOOK_SECONDS = 5.0
MAKE_ONE = "make a token at the hub: shoal join-token create"


@dataclass(frozen=True, slots=True)
class HubGiven:
    """How a worker finds its hub: by a kubeconfig, by address, token and hash, or not at all if it has joined
    before.
    """

    kubeconfig: Path | None = None
    address: str = ""
    token: str = field(default="", repr=False)
    authority_hash: str = ""


@dataclass(frozen=True, slots=True)
class _Told:
    """A hub whose address and certificate authority are known."""

    server: str
    authority: str
    token: str = field(default="", repr=False)
    """A join token; empty: `admin_endpoint` may create one."""
    administrator: Endpoint | None = None


class Membership:
    def __init__(self, file: Path, worker: str, endpoint: Endpoint, certificate: str) -> None:
        self._file, self._worker = file, worker
        self.endpoint = endpoint
        """Uses the worker's current certificate."""
        self.certificate = certificate

    def keep(self, certificate: str, key: bytes) -> None:
        """Saves the certificate and uses it for new connections."""
        text = _kubeconfig(self.endpoint.server, self.endpoint.authority, self._worker, certificate, key)
        write_private(self._file, text)
        _show(self.endpoint.tls, certificate.encode(), key)
        self.certificate = certificate


def check_given(given: HubGiven) -> None:
    """Raises KubeconfigError if the target is invalid, before anything is started."""
    if given.kubeconfig is not None:
        load_endpoint(given.kubeconfig)


async def become_member(directory: Path, worker: str, given: HubGiven, store: str, clock: Clock) -> Membership:
    """Uses the identity in the data directory if it belongs to that hub; joins otherwise. `store_id` is the ID of the
    worker's own store.
    """
    file = directory / HUB_KUBECONFIG
    known = _known(file, worker)
    if known is not None and _is_hub_of(known, given):
        ended = (not_after(known.certificate.encode()) or 0.0) <= clock.now()
        if not ended and await _is_accepted(known.endpoint):
            return known
        if given.kubeconfig is None and not given.token:
            why = "has ended" if ended else "is not accepted any more"
            raise JoinError(f"the certificate of worker {worker} {why}", f"{MAKE_ONE} --name {worker}", exit_code=4)
    elif given.kubeconfig is None and not given.token:
        raise JoinError("this worker has not joined a hub yet", MAKE_ONE)
    told = await _told(given)
    try:
        return await _join(file, worker, told, store, clock)
    except Refused as error:
        raise JoinError(f"the hub refused worker {worker}: {error}", MAKE_ONE, exit_code=4) from None
    except Undecided as error:
        raise JoinError(f"the hub does not let worker {worker} in: {error}", "do its loops run?") from None
    except Unreachable as error:
        hint = "the kubeconfig is of another hub, or of an earlier one" if distrusts(error) else "start it: shoal up"
        raise JoinError(f"the hub does not answer: {error}", hint, exit_code=3) from None
    except Unauthorized:
        why = "the join token has expired, was deleted or is misspelt"
        raise JoinError(why if told.token else "the kubeconfig is not accepted", MAKE_ONE, exit_code=4) from None
    except Forbidden as error:
        raise JoinError(str(error), MAKE_ONE, exit_code=4) from None


async def _join(file: Path, worker: str, told: _Told, store: str, clock: Clock) -> Membership:
    token = told.token or await _own_token(told, worker, clock)
    pending = file.with_name(PENDING)
    hub = client_to(Endpoint(told.server, _trusting(told.authority), token), AGENT)
    try:
        key = _pending_key(pending)
        try:
            certificate = await certified(hub, clock, key, worker, store)
        except AskedBefore:
            pending.unlink()
            key = _pending_key(pending)
            certificate = await certified(hub, clock, key, worker, store)
    except Refused:
        pending.unlink(missing_ok=True)  # the decision on a CSR is final
        raise
    finally:
        await hub.close()
    endpoint = Endpoint(told.server, _trusting(told.authority), "", told.authority)
    made = Membership(file, worker, endpoint, certificate)
    made.keep(certificate, key)
    pending.unlink(missing_ok=True)
    return made


async def _own_token(told: _Told, worker: str, clock: Clock) -> str:
    assert told.administrator is not None
    hub = client_to(told.administrator, AGENT)
    try:
        return await create_token(hub, clock.now(), SELF_TOKEN_SECONDS, worker=worker)
    finally:
        await hub.close()


async def _told(given: HubGiven) -> _Told:
    if given.kubeconfig is None:
        server = base_of(given.address)
        try:
            authority = await fetch_authority(server, given.authority_hash)
        except Unreachable as error:
            raise JoinError(f"the hub does not answer: {error}", "is that its address?", exit_code=3) from None
        return _Told(server, authority, given.token)
    endpoint = load_endpoint(given.kubeconfig)
    if not endpoint.authority and endpoint.tls.verify_mode == ssl.CERT_NONE:
        raise KubeconfigError(f"{given.kubeconfig}: a worker needs the hub's certificate-authority to join")
    bootstrap = endpoint.token if joining.split_token(endpoint.token) is not None else ""
    return _Told(base_of(endpoint.server), endpoint.authority, bootstrap, endpoint)


def base_of(server: str) -> str:
    """Returns the base URL of the hub, given a URL of its root."""
    parts = urlsplit(server)
    return f"https://{parts.netloc}{parts.path.rstrip('/').removesuffix('/clusters/root')}"


def _is_hub_of(known: Membership, given: HubGiven) -> bool:
    """Returns whether the membership belongs to the given hub. The address of a hub may change, its certificate
    authority may not.
    """
    if given.kubeconfig is not None:
        endpoint = load_endpoint(given.kubeconfig)
        server, same = endpoint.server, endpoint.authority == known.endpoint.authority
    elif given.address:
        server, same = given.address, is_of_hash(known.endpoint.authority, given.authority_hash)
    else:
        return True
    if same:
        old = known.endpoint
        known.endpoint = Endpoint(base_of(server), old.tls, old.token, old.authority)
    return same


def _known(file: Path, worker: str) -> Membership | None:
    if not file.exists():
        return None
    config = parse(file.read_text(), str(file))
    endpoint = endpoint_of(config, where=str(file))
    user = config["users"][0]
    if user["name"] != joining.user_name(worker):
        own = user["name"].removeprefix(joining.PREFIX)
        said = f"{file.parent} is of worker {own}, not {worker}"
        raise DataDirError(said, f"give --name {own}, or another --data-dir")
    certificate = base64.b64decode(user["user"].get("client-certificate-data") or "").decode()
    return Membership(file, worker, endpoint, certificate)


async def _is_accepted(endpoint: Endpoint) -> bool:
    """Returns whether the hub accepts the worker's certificate. No answer counts as accepted."""
    hub = client_to(endpoint, AGENT, LOOK_SECONDS)
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
            certificate_request(key, "w")
            return key
        except ValueError:
            pass  # not a usable key
    key = new_key()
    write_private(file, key.decode())
    return key


def _trusting(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority or None)


def _show(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # Python reads client certificates from files only; this one is private and deleted at once.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _kubeconfig(server: str, authority: str, worker: str, certificate: str, key: bytes) -> str:
    user = joining.user_name(worker)
    shown = {"client-certificate-data": _encoded(certificate.encode()), "client-key-data": _encoded(key)}
    trusted = {"certificate-authority-data": _encoded(authority.encode())} if authority else {}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server, **trusted}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": user}}],
        "current-context": "hub",
        "users": [{"name": user, "user": shown}],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
