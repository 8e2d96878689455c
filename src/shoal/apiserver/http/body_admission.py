"""The part of a connection that lets bodies in: the head of a request is answered before more of its body is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from shoal.apiserver.aio import error_of
from shoal.apiserver.http.body_budget import body_refused_error
from shoal.apiserver.http.connection_owner import ConnectionOwner
from shoal.apiserver.http.parser import ParsedRequest, RequestParser
from shoal.apiserver.http.sink import StreamSink
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Response, StreamResponse, Upgrade


class BodyAdmission:
    """Inherited by the connection, which has these attributes and methods."""

    __slots__ = ("_in_progress", "_parsed")

    _server: ConnectionOwner[Any]
    _transport: asyncio.Transport
    _parser: RequestParser
    _parsed: ParsedRequest
    _in_progress: asyncio.Future[Answer] | Iterator[bytes | memoryview] | StreamSink | None
    _is_closing: bool

    def _advance(self) -> None:
        raise NotImplementedError

    def _error_response(self, error: BaseException) -> Response:
        raise NotImplementedError

    def _send_response(self, response: Response) -> None:
        raise NotImplementedError

    def _send_last(self, response: Response, method: str = "") -> None:
        raise NotImplementedError

    def _reject(self, error: StatusError) -> None:
        raise NotImplementedError

    def _admit_body(self) -> None:
        """Has the head answered before more of the body is read."""
        try:
            head = self._parser.head()
            head.hold = self._parser.hold = hold = self._parser.new_hold()
            answer = self._server.head_handler(head)
        except Exception as error:
            answer = self._error_response(error)
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            self._on_head_answer(answer)
            return
        hold.start_reception(self._refuse_body)
        self._in_progress = task = asyncio.ensure_future(answer)
        task.add_done_callback(self._on_head_task_done)

    def _on_head_task_done(self, task: asyncio.Future[Answer]) -> None:
        error = error_of(task)
        if self._in_progress is task:
            self._in_progress = None
            self._on_head_answer(self._error_response(error) if error else task.result())
            self._advance()

    def _on_head_answer(self, answer: Answer) -> None:
        parser = self._parser
        if answer.status != 100:
            assert isinstance(answer, Response)
            if parser.skip_body():
                self._parsed = ParsedRequest(parser.head(), True, True)
                self._send_response(answer)
            else:
                self._send_last(answer, parser.method)
        elif parser.hold is not None:
            parser.hold.start_reception(self._refuse_body)
            if parser.wants_continue:
                parser.wants_continue = False
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse_body(self) -> None:
        """Ends a body for which there is no room."""
        if not self._is_closing:
            self._reject(body_refused_error())
