"""The handler chain: its order, and that no step runs twice for one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.apiserver import chain, filters
from shoal.apiserver.authn.authenticator import User
from shoal.apiserver.authz import Attributes
from shoal.apiserver.chain import FILTERS, FINISHERS, PLAIN_FINISHERS
from shoal.apiserver.flowcontrol import DispatcherConfig
from shoal.apiserver.server import RequestContext
from shoal.apiserver.write.pipeline import STEPS
from shoal.assemble.server.dispatcher import make_dispatcher
from shoal.objects.wire import Request, Response
from tests.serving import Cluster, Server, config_map, fresh_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
SCHEMA = "X-Kubernetes-PF-FlowSchema-UID"


@pytest.fixture
def whole(still_server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, "cluster")
    yield cluster
    cluster.close()


def service_account_token(cluster: Cluster) -> str:
    found = cluster.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}).ok()
    return str(found["status"]["token"])


def test_the_filters_run_in_this_order() -> None:
    assert [step.__name__ for step in FILTERS] == [
        "request_info",
        "start_span",
        "wait_for_store",
        "authenticate",
        "enter_cluster",
        "count_connection",
        "impersonate",
        "classify_flow",
        "authorize",
        "ensure_cluster_keys",
        "nonresource_paths",
        "find_resource",
        "negotiate",
        "select_verb",
    ]


def test_the_finishers_run_in_this_order() -> None:
    assert [step.__name__ for step in FINISHERS] == [
        "serialize",
        "add_warnings",
        "pretty_print",
        "add_headers",
        "observe_metrics",
        "finish_audit",
    ]
    assert [step for step in FINISHERS if step in PLAIN_FINISHERS] == list(PLAIN_FINISHERS)


def test_a_write_runs_these_steps_in_this_order() -> None:
    assert [step.__name__ for step in STEPS] == [
        "read_current",
        "build_object",
        "check_preconditions",
        "set_server_metadata",
        "default",
        "prepare_subresource",
        "update_managed_fields",
        "prepare_strategy",
        "mutating_admission",
        "authorize_creation",
        "validating_admission",
        "take_locks",
        "builtin_admission",
        "skip_unchanged",
        "validate_object",
        "allocate_and_canonicalize",
        "compare_and_swap",
    ]


class Calls:
    """Counts authentications and authorizations by path or attributes, and the flows asked for."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        core = cluster.server.shoal.server.core
        self.authenticated: Counter[str] = Counter()
        self.authorized: Counter[tuple[str, str]] = Counter()
        self.classified: Counter[str] = Counter()
        self.parsed: Counter[str] = Counter()
        authenticate, authorizer = core.authenticator.authenticate, core.authorizer
        flow_of, request_info = core.flow_schemas.flow_of, filters.request_info

        def counting_authenticate(request: Request, name: str) -> User:
            self.authenticated[request.path] += name == cluster.name
            return authenticate(request, name)

        def count_calls(name: str) -> None:
            authorize = getattr(authorizer, name)

            def counting_authorize(user: User, attributes: Attributes) -> Any:
                if attributes.cluster == cluster.name:
                    self.authorized[attributes.verb, attributes.path or attributes.resource] += 1
                return authorize(user, attributes)

            monkeypatch.setattr(authorizer, name, counting_authorize)

        def counting_flow_of(name: str, user: User, verb: str, info: Any) -> Any:
            self.classified[user.name] += name == cluster.name
            return flow_of(name, user, verb, info)

        def counting_request_info(server: Any, ctx: RequestContext) -> None:
            self.parsed[ctx.request.path] += 1
            request_info(server, ctx)

        monkeypatch.setattr(core.authenticator, "authenticate", counting_authenticate)
        count_calls("authorize")
        count_calls("authorize_steps")
        monkeypatch.setattr(core.flow_schemas, "flow_of", counting_flow_of)
        app = cluster.server.shoal.server.app
        monkeypatch.setattr(chain, "request_info", counting_request_info)
        monkeypatch.setattr(
            app, "_filters", tuple(counting_request_info if each is request_info else each for each in app._filters)
        )


def queued_answers(cluster: Cluster, *requests: Request) -> list[Response]:
    """The answers to requests that all wait in the dispatcher."""

    async def send() -> list[Response]:
        server = cluster.server.shoal.server
        dispatcher = make_dispatcher(server.app, server.core, server.metrics, DispatcherConfig(turn_seconds=-1.0))
        dispatcher.handle(Request("GET", "/livez"))  # the turn is used up
        pending = [dispatcher.handle(request) for request in requests]
        answers = []
        for each in pending:
            assert isinstance(each, asyncio.Future)
            answers.append(await each)
        assert dispatcher.dispatched_total == len(requests)
        return answers

    return cluster.server.call(send())


def test_a_request_that_waited_is_authenticated_and_classified_once(
    whole: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.post(MAPS, config_map("a")).ok()
    headers = {"authorization": f"Bearer {service_account_token(whole)}"}
    schemas = whole.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/service-accounts").ok()
    calls = Calls(whole, monkeypatch)
    path = f"{whole.prefix}{MAPS}/a"
    [answer] = queued_answers(whole, Request("GET", path, headers=headers))
    assert answer.status == 403  # authorized in the chain, as ever
    assert dict(answer.headers)[SCHEMA] == schemas["metadata"]["uid"]
    assert calls.parsed[path] == calls.authenticated[path] == 1
    assert calls.classified == {"system:serviceaccount:default:default": 1}
    assert calls.authorized == {("get", "configmaps"): 1}


def test_a_request_that_waited_with_a_wrong_token_is_unauthorized(
    whole: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(whole, monkeypatch)
    path = f"{whole.prefix}{MAPS}/a"
    [answer] = queued_answers(whole, Request("GET", path, headers={"authorization": "Bearer wrong"}))
    assert answer.status == 401
    assert SCHEMA not in dict(answer.headers)
    assert calls.authenticated[path] == 1


def test_a_request_that_waited_may_impersonate(whole: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits as who it is. Its answer names the flow of the user it acts as."""
    account = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "cluster-admin"}
    binding = {"metadata": {"name": "all"}, "subjects": [account], "roleRef": role}
    whole.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).ok()
    headers = {"authorization": f"Bearer {service_account_token(whole)}", "impersonate-user": "jane"}
    calls = Calls(whole, monkeypatch)
    [answer] = queued_answers(whole, Request("GET", f"{whole.prefix}{MAPS}", headers=headers))
    assert answer.status == 403
    assert b'User \\"jane\\" cannot list' in answer.body
    assert calls.classified == {"system:serviceaccount:default:default": 1, "jane": 1}


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", MAPS, ("list", "configmaps")),
        ("POST", MAPS, ("create", "configmaps")),
        ("GET", "/version", ("get", "/version")),
        ("GET", "/apis/", ("get", "/apis")),
        ("POST", "/nowhere", ("post", "/nowhere")),
    ],
)
def test_a_request_is_authorized_once(
    whole: Cluster, monkeypatch: pytest.MonkeyPatch, method: str, path: str, asked: tuple[str, str]
) -> None:
    calls = Calls(whole, monkeypatch)
    whole.request(method, path, config_map("a") if method == "POST" else None)
    # The head of a request is examined on its own if the body comes later than the head.
    assert calls.authorized in ({asked: 1}, {asked: 2 if method == "POST" else 1})
