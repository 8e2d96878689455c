"""Operations allowed in one's own cluster must not affect another: markers, owners, reviews, certificate requests."""

from __future__ import annotations

import base64
import ssl
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from shoal.apiserver.request.options import encode_continue
from tests.isolation.attempts import ALPHA, BETA, CSR, LOGICAL, SECRETS, TREASURE
from tests.isolation.tenants import People, alternatives, declared, eventually, token_for

MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def as_alpha(people: People, method: str, path: str, body: Any = None) -> Any:
    return people.ask("alpha-admin", method, f"/clusters/{ALPHA}{path}", body)


@pytest.mark.parametrize(
    "after", [f"{BETA}\t", f"{BETA}\tdefault/", "", "../beta/default/", f"{ALPHA}\tdefault/a", "\tdefault/", "0", "~"]
)
def test_a_continue_token_of_elsewhere_shows_only_ones_own(people: People, after: str) -> None:
    for at in (people.hub.shoal.store.revision, -1):
        answer = as_alpha(people, "GET", f"{SECRETS}?limit=500&continue={encode_continue(at, after)}")
        assert answer.status in (200, 400, 410)
        assert TREASURE.encode() not in answer.body


def test_revisions_of_elsewhere_show_only_ones_own(people: People) -> None:
    """Revisions are the store's, and say nothing by themselves."""
    made = people.beta.post(MAPS, {"metadata": {"name": "recent"}}).ok()  # older revisions are compacted
    theirs = int(made["metadata"]["resourceVersion"])
    for revision in (theirs, theirs - 1):
        for query in (f"resourceVersion={revision}&resourceVersionMatch=Exact", f"resourceVersion={revision}"):
            answer = as_alpha(people, "GET", f"{SECRETS}?{query}")
            assert answer.status == 200
            assert TREASURE.encode() not in answer.body
        answer = as_alpha(people, "GET", f"{SECRETS}?watch=true&resourceVersion={revision}&timeoutSeconds=1")
        assert answer.status == 200
        assert TREASURE.encode() not in answer.body


def owned(name: str, uid: str, **more: Any) -> Any:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, **more}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


def test_an_owner_of_another_cluster_owns_nothing(people: People) -> None:
    theirs = people.beta.post(MAPS, {"metadata": {"name": "owner"}}).ok()["metadata"]["uid"]
    people.beta.post(MAPS, owned("kept", theirs)).ok()
    assert as_alpha(people, "POST", MAPS, owned("claimed", theirs, blockOwnerDeletion=True)).status == 201
    # Deleting what claims an owner, and claiming to block its deletion, is nothing to beta.
    assert as_alpha(people, "POST", MAPS, owned("again", theirs)).status == 201
    assert as_alpha(people, "DELETE", f"{MAPS}/again?propagationPolicy=Foreground").status == 200
    assert people.beta.get(f"{MAPS}/kept").status == 200
    assert people.beta.get(f"{MAPS}/owner").status == 200
    people.beta.delete(f"{MAPS}/owner?propagationPolicy=Foreground").ok()
    eventually(lambda: people.beta.get(f"{MAPS}/owner").status == 404)
    eventually(lambda: people.beta.get(f"{MAPS}/kept").status == 404)  # it does not block the deletion of its owner
    assert as_alpha(people, "GET", f"{MAPS}/claimed").status == 200


def test_an_owner_of_the_same_name_and_uid_does_not_take_others_along(people: People) -> None:
    """A uid cannot be chosen: one that is sent is not taken."""
    theirs = people.beta.post(MAPS, {"metadata": {"name": "father"}}).ok()["metadata"]["uid"]
    people.beta.post(MAPS, owned("child", theirs)).ok()
    made = as_alpha(people, "POST", MAPS, {"metadata": {"name": "father", "uid": theirs}})
    assert made.status == 201
    assert made["metadata"]["uid"] != theirs
    assert as_alpha(people, "DELETE", f"{MAPS}/father").status == 200
    assert people.beta.get(f"{MAPS}/father").status == 200


def test_a_review_knows_only_tokens_of_its_cluster(people: People) -> None:
    own, theirs = token_for(people.alpha, "robot"), token_for(people.beta, "robot")
    for token, known in ((own, True), (theirs, False), (people.token("root-account"), False)):
        for audiences in ([], [people.hub.shoal.server.core.tokens.issuer(BETA)]):
            answer = as_alpha(people, "POST", REVIEWS, {"spec": {"token": token, "audiences": audiences}})
            status = answer.json["status"]
            assert bool(status.get("authenticated")) is (known and not audiences)
            assert bool(status.get("user")) is (known and not audiences)


def test_a_review_of_access_is_about_ones_own_cluster(people: People) -> None:
    wanted = {"verb": "get", "resource": "secrets", "namespace": "default", "name": "treasure"}
    spec = {"user": "system:serviceaccount:default:chief", "resourceAttributes": wanted}
    review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert as_alpha(people, "POST", review, {"spec": spec}).json["status"]["allowed"] is True
    assert people.beta.post(review, {"spec": spec}).ok()["status"]["allowed"] is False


def test_a_certificate_is_of_the_authority_of_the_cluster_it_was_asked_in(people: People) -> None:
    """Path addresses of the server take tokens only: no authority of another cluster than root is trusted there."""
    people.root.post(LOGICAL, declared("gamma")).ok()
    gamma = f"/clusters/gamma{CSR}"
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.UniformResourceIdentifier(f"shoal://{BETA}#{people.uid(BETA)}"), x509.DNSName("gamma")]
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "devs"),
        x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
    ]
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(subject))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": pem, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    made = people.ask("root-admin", "POST", gamma, {"metadata": {"name": "ann"}, "spec": spec}).ok()
    condition = {"type": "Approved", "status": "True", "reason": "Test", "message": ""}
    made["status"] = {"conditions": [condition]}
    people.ask("root-admin", "PUT", f"{gamma}/ann/approval", made).ok()

    def issued() -> bytes:
        status = people.ask("root-admin", "GET", f"{gamma}/ann").ok().get("status") or {}
        return base64.b64decode(status.get("certificate", ""))

    certificate: bytes = eventually(issued)
    assert alternatives(certificate) == [f"shoal://gamma#{people.uid('gamma')}"]
    people.wears("ann", certificate, key)
    root_ca = "/clusters/gamma/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    authority = people.ask("root-admin", "GET", root_ca).ok()["data"]["ca.crt"]
    x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.encode())
    )
    for cluster in ("gamma", BETA, "root"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            people.ask("ann", "GET", f"/clusters/{cluster}/apis")
    people.root.delete(f"{LOGICAL}/gamma").ok()
    eventually(lambda: people.root.get(f"{LOGICAL}/gamma").status == 404)
    people.root.post(LOGICAL, declared("gamma")).ok()
    assert people.ask("root-admin", "GET", root_ca).ok()["data"]["ca.crt"] != authority
