"""Requests without a body: queries, headers, paths and tokens as long as a request's head may be."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import quote

from tests.faults.growth.cases import TABLE, Case, Group, Step, Steps, compact, send
from tests.faults.growth.texts import FORMS, KB, TEXTS, text_of

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = 60 * KB
OBJECTS, LABELS = 300, 40
PARAMETERS = (
    "labelSelector", "fieldSelector", "continue", "resourceVersion", "fieldManager", "limit", "timeoutSeconds",
    "pretty", "dryRun", "propagationPolicy", "gracePeriodSeconds", "fieldValidation", "timeout",
)  # fmt: skip
HEADERS = (
    "Accept", "Accept-Encoding", "User-Agent", "Impersonate-User", "Impersonate-Group", "Impersonate-Uid",
    "Impersonate-Extra-a", "Authorization", "Content-Type", "If-None-Match", "Traceparent", "X-Forwarded-For", "Cookie",
    "Host", "Range", "Connection", "Upgrade", "Sec-WebSocket-Protocol", "Tracestate", "Audit-ID", "X-Remote-User",
)  # fmt: skip
PATHS = {
    "name": f"{CONFIG_MAPS}/@",
    "namespace": "/api/v1/namespaces/@/configmaps",
    "group": "/apis/@/v1/a",
    "version": "/apis/apps/@/a",
    "resource": "/api/v1/",
    "subresource": f"{CONFIG_MAPS}/a/",
    "cluster": "!/clusters/@/api/v1/configmaps",
    "managed cluster": "!/managedclusters/@/api",
    "proxy": "/api/v1/namespaces/default/services/a/proxy/",
    "openapi": "/openapi/v3/",
    "health": "/readyz/",
    "root": "!/",
}
SELECTORS = {
    "equals": ",".join(f"k{number % LABELS}=a" for number in range(HEAD // 7)),
    "not equals": ",".join(f"k{number % LABELS}!=b" for number in range(HEAD // 8)),
    "in": f"k1 in ({','.join(f'v{number}' for number in range(HEAD // 7))})",
    "notin": f"k1 notin ({','.join(f'v{number}' for number in range(HEAD // 7))})",
    "notin each": ",".join(f"k{number % LABELS} notin (b,c)" for number in range(HEAD // 17)),
    "exists": ",".join(f"k{number % LABELS}" for number in range(HEAD // 4)),
    "absent": ",".join(f"!x{number}" for number in range(HEAD // 7)),
    "greater": ",".join(f"n>{number % 9}" for number in range(HEAD // 4)),
}
ACCEPTS = {
    "yaml": "application/yaml",
    "table": TABLE,
    "protobuf": "application/vnd.kubernetes.protobuf",
    "metadata": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "json": "application/json",
}


def query_cases() -> Iterator[Case]:
    group = Group("queries", _setup)
    for parameter in PARAMETERS:
        for name in (*TEXTS, *(form for form in FORMS if form.startswith("selector"))):
            yield Case(group, f"{parameter} {name}", _grown(f"{CONFIG_MAPS}?{parameter}=", name))
    for name, selector in SELECTORS.items():
        path = f"{CONFIG_MAPS}?labelSelector={quote(selector, safe='=,!()')[:HEAD]}"
        yield Case(group, f"{OBJECTS} objects {name}", _get(path))
        fields = ",".join(["metadata.name!=a"] * (HEAD // 18))
        yield Case(group, f"{OBJECTS} objects fields {name}", _get(f"{CONFIG_MAPS}?fieldSelector={fields}"))
    for name, accept in ACCEPTS.items():
        for query in ("", "?pretty=true", "?limit=200", "?labelSelector=k1%3Da"):
            yield Case(group, f"{OBJECTS} objects {name} {query}", _get(CONFIG_MAPS + query, Accept=accept))
        path = f"{CONFIG_MAPS}?pretty=true"
        yield Case(group, f"{OBJECTS} objects {name} gzip", _get(path, Accept=accept, Accept_Encoding="gzip"))
        yield Case(group, f"{OBJECTS} objects {name} curl", _get(CONFIG_MAPS, Accept=accept, User_Agent="curl/8.0"))
    yield Case(group, "many parameters", _get(f"{CONFIG_MAPS}?{'a=1&' * (HEAD // 4)}"))
    yield Case(group, "many selectors", _get(f"{CONFIG_MAPS}?{'labelSelector=a&' * (HEAD // 16)}"))
    for header in HEADERS:
        for name in TEXTS:
            yield Case(group, f"{header} {name}", _header(header, name))
    yield from _accepts(group)
    for where, path in PATHS.items():
        for name in TEXTS:
            yield Case(group, f"path {where} {name}", _grown(path, name))
    for name in ("labels", "dots", "letters", "base64", "slashes"):
        for shape in ("claims", "header", "signature"):
            yield Case(group, f"token {shape} {name}", _token(shape, name))
    for where in ("/openapi/v2", "/openapi/v3", "/apis", "/api/v1", "/metrics"):
        yield Case(group, f"whole {where}", _get(where))
        yield Case(group, f"whole {where} pretty", _get(f"{where}?pretty=true", Accept="application/yaml"))


def _setup() -> Iterator[Step]:
    labels = {f"k{number}": "a" for number in range(LABELS)} | {"n": "5"}
    for number in range(OBJECTS):
        obj = {"metadata": {"name": f"c{number}", "labels": labels}, "data": {f"d{n}": "a" * 40 for n in range(150)}}
        yield send("object", "POST", CONFIG_MAPS, compact({"apiVersion": "v1", "kind": "ConfigMap", **obj}))


def _get(path: str, **headers: str) -> Steps:
    return lambda: [send("get", "GET", path, **headers)]


def _grown(path: str, name: str) -> Steps:
    """The text stands for the `@`, or at the end."""

    def steps() -> Iterator[Step]:
        text = quote(text_of(name, HEAD // 3), safe="/.:")[:HEAD]
        yield send("get", "GET", path.replace("@", text) if "@" in path else path + text)

    return steps


def _header(header: str, name: str) -> Steps:
    def steps() -> Iterator[Step]:
        text = text_of(name, HEAD).encode("latin-1", "replace").decode("latin-1").replace("\n", "?")
        value = f"Bearer {text}" if header == "Authorization" else text
        yield Step("get", "GET", f"{CONFIG_MAPS}/c1", headers={header: value})

    return steps


def _accepts(group: Group) -> Iterator[Case]:
    for name, unit in {
        "types": "application/json,", "parameters": "application/json;a=b;", "weights": "application/x;q=0.1,",
        "semicolons": ";", "stars": "*/*,", "tables": f"{TABLE},", "quotes": 'application/json;a="b,c",',
        "unknown": "a/b,", "views": "application/json;as=A;g=b;v=c,",
    }.items():  # fmt: skip
        value = unit * (HEAD // len(unit))
        yield Case(group, f"Accept {name} repeated", _get(CONFIG_MAPS, Accept=value))
        yield Case(group, f"Accept {name} of apis", _get("/apis", Accept=value))


def _token(shape: str, name: str) -> Steps:
    text = text_of(name, HEAD // 2)
    head = {"alg": "ES256", "kid": text if shape == "header" else "a"}
    claims = {"iss": text, "sub": text} if shape == "claims" else {"sub": "a"}
    parts = [base64.urlsafe_b64encode(compact(part).encode()).decode().rstrip("=") for part in (head, claims)]
    token = ".".join([*parts, text if shape == "signature" else "AAAA"])[:HEAD]
    return lambda: [Step("get", "GET", f"{CONFIG_MAPS}/c1", headers={"Authorization": f"Bearer {token}"})]
