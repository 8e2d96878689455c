"""Secrets of every type and requests for certificates: texts that are read as PEM, JSON or a token."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from tests.apiserver.kind_samples import signing_request
from tests.faults.growth.cases import Case, Group, Step, Steps, compact, send
from tests.faults.growth.texts import LIGHT, MB, TEXTS, quoted, size_name, text_of

SECRETS = "/api/v1/namespaces/default/secrets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TYPES = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/basic-auth": ("username", "password"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "bootstrap.kubernetes.io/token": ("token-id", "token-secret", "expiration", "auth-extra-groups"),
    "kubernetes.io/service-account-token": ("token", "ca.crt"),
}
SIZES = (LIGHT * 2 // 3, MB)


def credential_cases() -> Iterator[Case]:
    group = Group("credentials")
    for size in SIZES:
        for name in TEXTS:
            for kind, keys in TYPES.items():
                for key in keys:
                    yield Case(group, f"{kind} {key} {name} {size_name(size)}", _secret(kind, key, name, size))
            yield Case(group, f"request {name} {size_name(size)}", _request(name, size))
            yield Case(group, f"request after {name} {size_name(size)}", _request(name, size, signing_request()))
            yield Case(group, f"token {name} {size_name(size)}", _token(name, size))


def _secret(kind: str, key: str, name: str, size: int) -> Steps:
    def steps() -> Iterator[Step]:
        data = dict.fromkeys(TYPES[kind], "YQ==")
        data[key] = base64.b64encode(text_of(name, size).encode()).decode()
        body = {"metadata": {"name": "bootstrap-token-aaaaaa"}, "type": kind, "data": data}
        yield send("create", "POST", f"{SECRETS}?dryRun=All", compact(body))

    return steps


def _request(name: str, size: int, before: str = "") -> Steps:
    def steps() -> Iterator[Step]:
        request = base64.b64encode(base64.b64decode(before) + text_of(name, size).encode()).decode()
        spec = {"request": request, "signerName": "example.com/signer", "usages": ["client auth"]}
        yield send("create", "POST", f"{REQUESTS}?dryRun=All", compact({"metadata": {"name": "a"}, "spec": spec}))

    return steps


def _token(name: str, size: int) -> Steps:
    return lambda: [send("review", "POST", TOKEN_REVIEWS, f'{{"spec":{{"token":{quoted(text_of(name, size))}}}}}')]
