"""Attempts at clusters' own addresses: what belongs to one cluster opens no other, and no path leads out of it."""

from __future__ import annotations

import http.client
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.authn.serviceaccount_token import TokenSigner
from shoal.apiserver.pki.ca import DAY
from shoal.apiserver.pki.cluster_keys import ClusterKeys
from tests.certificates import issue_client, signer_of
from tests.isolation.attempts import ALPHA, BETA, LOGICAL, SECRETS, TREASURE
from tests.isolation.tenants import MANAGED, People, eventually, token_for
from tests.serving import HANG, Cluster

Object = dict[str, Any]

MASTERS = ["system:masters"]
CLUSTERS = ("alpha", "beta", "east", "west")
OTHERS = [(own, other) for own in CLUSTERS for other in CLUSTERS if own != other]
PORT = {"spec": {"endpoint": {"type": "Port"}}}


@dataclass
class Addresses:
    """A port for each of four clusters, and the credentials of each."""

    people: People
    directory: Path
    ports: dict[str, int] = field(default_factory=dict)
    authorities: dict[str, str] = field(default_factory=dict)

    def keys(self, cluster: str) -> tuple[ClusterKeys, str, str]:
        """The keys of the server that has the cluster, its name there, and its uid."""
        up = self.people.hub.up
        name = {"alpha": ALPHA, "beta": BETA}.get(cluster, f"default.{cluster}")
        servers = [up.hub, *(worker.shoal for worker in up.workers)]
        for server in servers:
            found = server.server.core.clusters.get(name)
            if found is not None:
                return server.server.core.keys, name, found.uid
        raise AssertionError(cluster)

    def token(self, cluster: str) -> str:
        if cluster in ("east", "west"):
            return self.people.token(f"{cluster}-admin")
        return token_for(self.people.alpha if cluster == "alpha" else self.people.beta, "robot")

    def certificate(self, signer: str, home: str = "", uid: str | None = None, ttl: float = DAY) -> Path:
        """A certificate of system:masters by the authority of `signer`, for the cluster `home`."""
        keys, name, own_uid = self.keys(signer)
        if home:
            _, name, own_uid = self.keys(home)
        now = keys._clock.now() - 2 * DAY if ttl < 0 else None
        issued = issue_client(
            signer_of(keys, self.keys(signer)[1]),
            "thief",
            MASTERS,
            cluster=name,
            uid=own_uid if uid is None else uid,
            ttl=abs(ttl),
            now=now,
        )
        file = self.directory / f"{signer}-{home}-{uid}-{ttl}.pem"
        file.write_bytes(issued.key + issued.certificate)
        return file

    def ask(
        self,
        cluster: str,
        path: str = SECRETS,
        *,
        token: str = "",
        certificate: Path | None = None,
        headers: dict[str, str] | None = None,
    ) -> int:
        """The status at the cluster's address; 0 if the connection was refused."""
        context = ssl.create_default_context(cadata=self.authorities[cluster])
        if certificate is not None:
            context.load_cert_chain(certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", self.ports[cluster], context=context, timeout=HANG)
        sent = dict(headers or {})
        if token:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.request("GET", path, headers=sent)
            answer = connection.getresponse()
            assert TREASURE.encode() not in answer.read()
            return answer.status
        except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
            return 0
        finally:
            connection.close()


@pytest.fixture(scope="session")
def addresses(people: People) -> Iterator[Addresses]:
    with tempfile.TemporaryDirectory(prefix="shoal-addresses-") as directory:
        made = Addresses(people, Path(directory))
        paths = {"alpha": f"{LOGICAL}/{ALPHA}", "beta": f"{LOGICAL}/{BETA}"}
        paths |= {name: f"{MANAGED}/{name}" for name in ("east", "west")}
        for path in paths.values():
            people.root.patch(path, PORT).ok()
        for name, path in paths.items():
            made.ports[name] = eventually(lambda path=path: _port(people.root, path))  # type: ignore[misc]
            keys, hosted, _ = made.keys(name)
            made.authorities[name] = people.hub.call(keys.ensure_root_ca(hosted))
        for name in CLUSTERS:
            eventually(lambda name=name: made.ask(name, "/version") == 200)  # type: ignore[misc]
        yield made


def _port(root: Cluster, path: str) -> int:
    status = root.get(path).ok().get("status") or {}
    return int((status.get("endpoint") or {}).get("port") or 0)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_control_own_credentials_open_it(addresses: Addresses, cluster: str) -> None:
    assert addresses.ask(cluster, "/api/v1/namespaces", certificate=addresses.certificate(cluster)) == 200
    assert addresses.ask(cluster, "/version", token=addresses.token(cluster)) == 200


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_a_client_certificate_opens_no_other_address(addresses: Addresses, own: str, other: str) -> None:
    assert addresses.ask(other, certificate=addresses.certificate(own)) == 0


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_an_authority_does_not_speak_for_another_cluster(addresses: Addresses, own: str, other: str) -> None:
    """Its key was stolen, and signs for users of the other one."""
    assert addresses.ask(other, certificate=addresses.certificate(own, home=other)) == 0


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_an_authority_signs_nobody_of_another_cluster_in(addresses: Addresses, own: str, other: str) -> None:
    """A user of the other cluster is nobody here, although the own authority has signed for him."""
    assert addresses.ask(own, certificate=addresses.certificate(own, home=other)) == 401


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_a_token_opens_no_other_address(addresses: Addresses, own: str, other: str) -> None:
    assert addresses.ask(other, token=addresses.token(own)) == 401


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("who", ["root-admin", "root-account"])
def test_credentials_of_the_hub_are_none_there(addresses: Addresses, cluster: str, who: str) -> None:
    assert addresses.ask(cluster, token=addresses.people.token(who)) == 401


@pytest.mark.parametrize(("own", "other"), OTHERS)
def test_a_key_signs_no_token_for_another_cluster(addresses: Addresses, own: str, other: str) -> None:
    keys, hosted, _ = addresses.keys(own)
    addresses.people.hub.call(keys.ensure_signing_key(hosted))
    target = addresses.ports[other]
    account = {"metadata": {"namespace": "kube-system", "name": "shoal-admin", "uid": "guessed"}}
    signer = TokenSigner(lambda cluster: keys.signing_keys(hosted), lambda cluster: f"https://127.0.0.1:{target}")
    assert addresses.ask(other, token=signer.issue(hosted, account, (), 3600, {}, keys._clock.now())[0]) == 401


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_what_has_ended_is_refused(addresses: Addresses, cluster: str) -> None:
    assert addresses.ask(cluster, certificate=addresses.certificate(cluster, ttl=-DAY)) == 0
    assert addresses.ask(cluster, certificate=addresses.certificate(cluster, uid="an-earlier-one")) == 401
    assert addresses.ask(cluster, certificate=addresses.certificate(cluster, uid="")) == 401


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    "path",
    [
        f"/clusters/{BETA}{SECRETS}",
        f"/clusters/root{SECRETS}",
        f"/clusters/*{SECRETS}",
        f"//clusters/{BETA}{SECRETS}",
        f"/%63lusters/{BETA}{SECRETS}",
        f"/api/../clusters/{BETA}{SECRETS}",
        f"/managedclusters/default/west{SECRETS}",
        "/workers/worker-1/tunnel",
        "/ui/",
        "/backup",
        "/metadata",
        f"https://127.0.0.1/clusters/{BETA}{SECRETS}",
    ],
)
def test_no_path_leads_out_of_it(addresses: Addresses, cluster: str, path: str) -> None:
    certificate = addresses.certificate(cluster)
    assert addresses.ask(cluster, path, certificate=certificate) in (400, 403, 404)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    "headers",
    [
        {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"},
        {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"},
        {"Host": "kubernetes.default.svc", "X-Forwarded-For": "127.0.0.1"},
    ],
    ids=["front proxy", "impersonation", "host"],
)
def test_headers_make_nobody_an_administrator(addresses: Addresses, cluster: str, headers: dict[str, str]) -> None:
    assert addresses.ask(cluster, headers=headers) in (401, 403)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_its_certificate_is_of_its_own_authority_alone(addresses: Addresses, cluster: str) -> None:
    others = "".join(addresses.authorities[each] for each in CLUSTERS if each != cluster)
    context = ssl.create_default_context(cadata=others + addresses.people.hub.authority.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", addresses.ports[cluster], context=context, timeout=HANG)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("GET", "/version")
    connection.close()
