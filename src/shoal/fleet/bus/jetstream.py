"""The only importer of the NATS client: a connection that reconnects forever, and the parts of JetStream that the bus
needs.

A JetStreamSession is one connection. When it breaks, all its requests fail with BusUnavailable, and consumers start
again. Nothing is buffered for a server that is not there.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.js import api

from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.fleet.bus.link_metrics import BUS_GRACE_SECONDS
from shoal.fleet.bus.settings import BusSettings
from shoal.objects.errors import ShoalError, StatusError
from shoal.runtime.controller import RequeueError

log = logging.getLogger("shoal.fleet")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
ANSWER_SECONDS, PING_SECONDS = 5.0, 5
BATCH, BATCH_SECONDS, HEARTBEAT_SECONDS = 256, 60.0, 5.0
"""Of one pull request, during which the server sends heartbeats while there are no messages."""
ACK_SECONDS = 5.0
"""After which an unacknowledged message is redelivered."""
INACTIVE_SECONDS = 60.0
"""After which the server deletes an ephemeral consumer that has left."""
WRONG_LAST_SEQUENCE = 10071
"""JetStream error code: the last sequence of the subject is not the expected one."""


class BusUnavailable(RequeueError):
    """The server did not answer: the request may or may not have been executed."""


class SequenceConflict(RequeueError):
    """The last message of the subject is not the one the publisher expects."""


class BusError(ShoalError):
    """The server answers but cannot be used as the bus."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint, self.exit_code = hint, exit_code


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    subject: str
    data: bytes
    headers: dict[str, str]
    sequence: int
    pending: int
    """Messages that are still to come at this moment."""
    acknowledge: Callable[[], Awaitable[None]]


class JetStreamSession:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
        self.ended = asyncio.Event()

    async def check(self) -> None:
        try:
            await self._jetstream.account_info()
        except (nats.js.errors.APIError, nats.errors.NoRespondersError) as error:
            raise _no_jetstream_error() from error

    async def ensure_stream(self, name: str, subjects: str) -> None:
        """Creates a stream that keeps the last message of each subject, on disk."""
        config = api.StreamConfig(
            name=name, subjects=[subjects], max_msgs_per_subject=1, storage=api.StorageType.FILE, allow_direct=True
        )
        with _translate_errors():
            try:
                await self._jetstream.stream_info(name)  # Its replicas and limits are up to the operator.
            except nats.js.errors.NotFoundError:
                await self._jetstream.add_stream(config)

    async def publish(self, subject: str, data: bytes, headers: dict[str, str], expected: int | None = None) -> int:
        """Returns the sequence once the server has stored the message. `expected` is the sequence of the last message
        of the subject; 0: none.
        """
        if expected is not None:
            headers = {**headers, api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(expected)}
        with _translate_errors():
            return (await self._jetstream.publish(subject, data, headers=headers)).seq

    async def last_message(self, stream: str, subject: str) -> tuple[dict[str, str], int] | None:
        """Returns headers and sequence of the last message of a subject."""
        with _translate_errors():
            try:
                message = await self._jetstream.get_last_msg(stream, subject)
            except nats.js.errors.NotFoundError:
                return None
        return dict(message.headers or {}), int(message.seq or 0)

    async def purge(self, stream: str, subject: str, last_sequence: int = 0) -> None:
        """Messages after `last_sequence` stay."""
        with _translate_errors():
            await self._jetstream.purge_stream(
                stream, seq=last_sequence + 1 if last_sequence else None, subject=subject
            )

    async def consumer(
        self, stream: str, subject: str, durable: str = "", *, recreate: bool = False, headers_only: bool = False
    ) -> tuple[str, int]:
        """Returns its name and how many messages are pending: first the last one of each subject. A durable consumer
        continues where it was, unless `recreate` is set. An unnamed one ends with the session.
        """
        config = api.ConsumerConfig(
            name=durable or self._connection.new_inbox().rpartition(".")[2],
            durable_name=durable or None,
            filter_subject=subject,
            deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT,
            ack_policy=api.AckPolicy.EXPLICIT if durable else api.AckPolicy.NONE,
            ack_wait=ACK_SECONDS if durable else None,
            inactive_threshold=None if durable else INACTIVE_SECONDS,
            headers_only=headers_only or None,
        )
        with _translate_errors():
            if recreate:
                with suppress(nats.js.errors.NotFoundError):
                    await self._jetstream.delete_consumer(stream, durable)
            try:
                info = await self._jetstream.add_consumer(stream, config)
            except nats.js.errors.NotFoundError:
                raise BusUnavailable(f"stream {stream} not found: a hub with --bus creates it") from None
        return str(info.name), int(info.num_pending or 0)

    async def follow(self, stream: str, consumer: str) -> AsyncIterator[DeliveredMessage]:
        """Yields messages as they come, forever."""
        inbox = self._connection.new_inbox()
        pull_request = {
            "batch": BATCH,
            "expires": _nanoseconds(BATCH_SECONDS),
            "idle_heartbeat": _nanoseconds(HEARTBEAT_SECONDS),
        }
        with _translate_errors():
            subscription = await self._connection.subscribe(inbox)
            while True:
                request = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
                await self._connection.publish(request, json.dumps(pull_request).encode(), inbox)
                remaining = BATCH
                while remaining:
                    message = await subscription.next_msg(timeout=3 * HEARTBEAT_SECONDS)
                    _check_cancelled()
                    status = (message.headers or {}).get(api.Header.STATUS.value)
                    if not status:
                        remaining -= 1
                        yield _delivered_message(message)
                    elif status in ("404", "408"):
                        break  # The pull request has expired.
                    elif status != "100":
                        raise BusUnavailable(
                            f"NATS server responded {status} {(message.headers or {}).get('Description', '')}".strip()
                        )


class NatsConnection:
    """`client_name` is what the server's operator sees. It is also the prefix of its inboxes, which no other client may
    read.
    """

    def __init__(self, settings: BusSettings, clock: Clock, client_name: str) -> None:
        self._settings, self._clock, self._client_name = settings, clock, client_name
        self._session: JetStreamSession | None = None
        self.on_failure: Callable[[str], None] = lambda error: None
        """Called with the error when there was no connection for a while, and with an empty one when there is."""

    @property
    def session(self) -> JetStreamSession:
        if self._session is None:
            raise BusUnavailable("not connected to the NATS server")
        return self._session

    def reconnect(self) -> None:
        if self._session is not None:
            self._session.ended.set()

    async def run(self, serve: Callable[[JetStreamSession], Awaitable[None]]) -> None:
        """Calls `serve` on one connection after another."""
        pause, down_since = FIRST_PAUSE, self._clock.monotonic()
        while True:
            try:
                async with connect(self._settings, self._client_name) as session:
                    self.on_failure("")
                    self._session, started = session, self._clock.monotonic()
                    try:
                        await _serve_until_ended(session, serve(session))
                    finally:
                        down_since = self._clock.monotonic()
                        if self._clock.monotonic() - started > LONGEST_PAUSE:
                            pause = FIRST_PAUSE
            except (BusUnavailable, SequenceConflict, BusError, StatusError, Unreachable) as error:
                log.warning("%s: %s; retrying in %.1f s", self._client_name, error, pause)
                if self._clock.monotonic() - down_since >= BUS_GRACE_SECONDS:
                    self.on_failure(f"no connection to the NATS server: {error}")
            finally:
                self._session = None
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


async def _serve_until_ended(session: JetStreamSession, work: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(session.ended.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done() and not tasks[0].cancelled():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def check_bus(settings: BusSettings, client_name: str) -> None:
    """Raises BusError if the server cannot be the bus. A server that does not answer may still come up."""
    try:
        async with connect(settings, client_name):
            pass
    except BusUnavailable as error:
        log.warning("cannot connect to the NATS server yet: %s", error)


@asynccontextmanager
async def connect(settings: BusSettings, client_name: str) -> AsyncIterator[JetStreamSession]:
    end_events: list[asyncio.Event] = []

    async def on_closed() -> None:
        for each in end_events:
            each.set()

    error_text = ""

    async def on_error(error: Exception) -> None:
        nonlocal error_text
        error_text = str(error) or type(error).__name__

    options: dict[str, Any] = {}
    if settings.credentials is not None:
        token, key = read_credentials(settings.credentials)
        options["user_jwt_cb"] = lambda: token
        options["signature_cb"] = lambda nonce: base64.b64encode(key.sign(nonce.encode()))
    connection = Connection()
    try:
        await connection.connect(
            list(settings.servers),
            name=client_name,
            # One attempt and no reconnection: NatsConnection.run retries.
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(ANSWER_SECONDS),
            ping_interval=PING_SECONDS,
            error_cb=on_error,
            closed_cb=on_closed,
            inbox_prefix=f"_INBOX_{client_name}",
            **options,
        )
        session = JetStreamSession(connection)
        end_events.append(session.ended)
        with _translate_errors():
            await session.check()
        yield session
    except (nats.errors.Error, OSError, TimeoutError) as error:
        if "authorization" in str(error).lower():
            message, hint = "the NATS server rejected the credentials", "give a user in the URL, or --bus-creds FILE"
            raise BusError(message, hint, exit_code=4) from None
        raise BusUnavailable(error_text or str(error) or type(error).__name__) from None
    finally:
        with suppress(nats.errors.Error, OSError, TimeoutError):
            await connection.close()


def read_credentials(file: Path) -> tuple[bytes, Ed25519PrivateKey]:
    """Returns the JWT and the key of a .creds file. Its seed is base32: two bytes of prefix, the key, two bytes of
    checksum.
    """
    try:
        lines = file.read_text().splitlines()
        token = _line_after(lines, "BEGIN NATS USER JWT")
        seed = _line_after(lines, "BEGIN USER NKEY SEED")
        key = base64.b32decode(seed + "=" * (-len(seed) % 8))[2:34]
        return token.encode(), Ed25519PrivateKey.from_private_bytes(key)
    except (OSError, StopIteration, ValueError):
        raise BusError(f"{file} is not a NATS credentials file", "create one: nsc generate creds") from None


def _line_after(lines: list[str], marker: str) -> str:
    rest = iter(lines)
    next(line for line in rest if marker in line)
    return next(rest).strip()


def _delivered_message(message: Msg) -> DeliveredMessage:
    metadata = message.metadata

    async def acknowledge() -> None:
        with _translate_errors():
            await message.ack()

    return DeliveredMessage(
        message.subject,
        message.data,
        dict(message.headers or {}),
        metadata.sequence.stream,
        metadata.num_pending,
        acknowledge,
    )


def _no_jetstream_error() -> BusError:
    return BusError("the NATS server has no JetStream", "start it with JetStream: nats-server -js -sd DIRECTORY")


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def _check_cancelled() -> None:
    """NATS's client waits with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that arrives together
    with the result.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translates NATS errors."""
    try:
        yield
        _check_cancelled()
    except nats.js.errors.APIError as error:
        if error.err_code == WRONG_LAST_SEQUENCE:
            raise SequenceConflict(error.description or "overtaken") from None
        raise BusUnavailable(error.description or str(error)) from None
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise BusUnavailable(str(error) or type(error).__name__) from None
