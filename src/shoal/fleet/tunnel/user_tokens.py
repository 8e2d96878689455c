"""Requests of the hub to a worker for a token of a hub user, as both ends write and read them. Pure.

The hub has authenticated and authorized the user. The worker learns the name of the user and the groups that have a
role in the cluster, never a credential of the user at the hub.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.fleet.tunnel.paths import HUB_REMOTE, HUB_REQUEST_PREFIX
from shoal.kinds.fleet.access import HubUser, HubUserToken, HubUserTokenRequest
from shoal.objects.errors import BadRequest, InternalError, MethodNotSupported, NotFound, Unavailable, from_status
from shoal.objects.wire import Request, Response

PASSED_ON = (400, 429, 503)
"""Status codes of a worker that the hub passes on."""
TOKENS_PATH = f"{HUB_REQUEST_PREFIX}usertokens"


def encode_request(token_request: HubUserTokenRequest) -> Request:
    body = {
        "namespace": token_request.namespace,
        "name": token_request.name,
        "uid": token_request.uid,
        "user": token_request.user.name,
        "groups": list(token_request.user.groups),
        "expirationSeconds": token_request.seconds,
    }
    headers = {"content-type": "application/json", "accept": "application/json"}
    return Request("POST", TOKENS_PATH, "", headers, orjson.dumps(body), remote_addr=HUB_REMOTE)


def decode_request(request: Request) -> HubUserTokenRequest:
    if request.path != TOKENS_PATH:
        raise NotFound("the server could not find the requested resource")
    if request.method != "POST":
        raise MethodNotSupported("the server does not allow this method on the requested resource")
    try:
        body = orjson.loads(request.body)
        texts = [body[key] for key in ("namespace", "name", "uid", "user")]
        groups, seconds = body["groups"], body["expirationSeconds"]
    except (KeyError, TypeError, ValueError):
        raise BadRequest("the body is not a request for a token of a hub user") from None
    if not all(isinstance(text, str) and text for text in (*texts, *groups)) or not isinstance(seconds, int):
        raise BadRequest("the body is not a request for a token of a hub user")
    namespace, name, uid, user = texts
    return HubUserTokenRequest(namespace, name, uid, HubUser(user, tuple(groups)), seconds)


def encode_response(issued: HubUserToken) -> Response:
    return Response(201, orjson.dumps({"token": issued.token, "expiry": issued.expiry, "audience": issued.audience}))


def decode_response(worker: str, response: Response) -> HubUserToken:
    content = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    body = _json_object(content)
    if response.status == 404:  # A worker of an earlier version.
        raise Unavailable(f'worker "{worker}" issues no tokens to users of the hub: upgrade it')
    if response.status != 201:
        error = from_status(body, response.status)
        # Of anything else a worker may not speak to a client of the hub.
        raise error if response.status in PASSED_ON else Unavailable(f'worker "{worker}" issued no token: {error}')
    token, expiry, audience = body.get("token"), body.get("expiry"), body.get("audience")
    if not isinstance(token, str) or not isinstance(expiry, int | float) or not isinstance(audience, str):
        raise InternalError(f'Internal error occurred: worker "{worker}" answered without a token')
    return HubUserToken(token, float(expiry), audience)


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
