"""Tunnel frames: round trip however the bytes are sliced; invalid frames are rejected."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.tunnel.flow_control import MAX_FRAME_DATA, ReceiveWindow, SendBuffer
from shoal.fleet.tunnel.frames import (
    DATA,
    INITIAL_CREDIT,
    MAX_PAYLOAD,
    OPEN,
    PING,
    PONG,
    Frame,
    FrameReader,
    ProtocolError,
    decode_head,
    decode_open,
    decode_window,
    encode,
    encode_head,
    encode_open,
    encode_window,
)
from shoal.objects.wire import Request

frames = st.builds(
    lambda kind, stream, payload: Frame(kind, 0 if kind >= PING else stream, payload),
    st.integers(OPEN, PONG), st.integers(1, 0xFFFFFFFF), st.binary(max_size=300),
)  # fmt: skip
texts = st.text(st.characters(codec="utf-8"), max_size=20)
pairs = st.lists(st.tuples(st.sampled_from(["a", "b", "accept"]), texts), max_size=5).map(tuple)


@given(st.lists(frames, max_size=20), st.lists(st.integers(0, 10_000), max_size=20))
def test_frames_come_out_as_they_went_in(sent: list[Frame], cuts: list[int]) -> None:
    data = b"".join(encode(*frame) for frame in sent)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    reader = FrameReader()
    assert [frame for a, b in itertools.pairwise(edges) for frame in reader.feed(data[a:b])] == sent


@given(st.binary(max_size=400))
def test_random_bytes_are_frames_or_refused(data: bytes) -> None:
    reader = FrameReader()
    try:
        found = list(reader.feed(data))
    except ProtocolError:
        return
    assert b"".join(encode(*frame) for frame in found) == data[: sum(9 + len(frame.payload) for frame in found)]


@pytest.mark.parametrize(
    ("opening", "said"),
    [
        (b"\x00" + bytes(8), "unknown frame kind 0"),
        (b"GET / HTT", "unknown frame kind 71"),
        (encode(DATA, 0), "frame of kind 3 is not allowed on stream 0"),
        (encode(PING, 7), "frame of kind 7 is not allowed on stream 7"),
        (
            encode(DATA, 1, bytes(MAX_PAYLOAD + 1))[:9],
            f"frame of {MAX_PAYLOAD + 1} bytes exceeds the limit of {MAX_PAYLOAD}",
        ),
    ],
)
def test_what_is_no_frame_is_named(opening: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        list(FrameReader().feed(opening))


@given(texts, texts, texts, pairs, st.binary(max_size=50))
def test_requests_survive(method: str, path: str, query: str, lines: tuple[tuple[str, str], ...], body: bytes) -> None:
    names = [name for name, _ in lines]
    joined = {name: ", ".join(value for key, value in lines if key == name) for name in names}
    repeated = lines if len(joined) != len(lines) else ()
    sent = Request(method, path, query, joined, body, raw_headers=repeated)
    got, length = decode_open(encode_open(sent))
    assert length == len(body)
    got.body = body
    assert got == sent


@given(st.integers(200, 599), texts, pairs, st.none() | st.integers(0, 1 << 40))
def test_answers_survive(status: int, content: str, lines: tuple[tuple[str, str], ...], length: int | None) -> None:
    assert decode_head(encode_head(status, content, lines, length)) == (status, content, lines, length)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=12))
def test_heads_of_any_shape_are_read_or_refused(value: object) -> None:
    payload = repr(value).replace("'", '"').replace("None", "null").replace("True", "true").encode()
    for decode in (decode_open, decode_head, decode_window):
        try:
            decode(payload)
        except ProtocolError:
            continue


def test_an_answer_of_one_hop_only_is_none() -> None:
    with pytest.raises(ProtocolError, match="invalid response in HEAD frame"):
        decode_head(encode_head(100, "", (), None))


def test_an_answer_may_switch_protocols() -> None:
    head = decode_head(encode_head(101, "", (("upgrade", "SPDY/3.1"),), None))
    assert (head.status, head.headers) == (101, (("upgrade", "SPDY/3.1"),))


@given(
    st.lists(st.binary(max_size=3 * MAX_FRAME_DATA // 2), max_size=12),
    st.lists(st.integers(1, 2 * MAX_FRAME_DATA), min_size=1),
)
def test_what_leaves_is_what_was_added_as_far_as_credit_goes(pieces: list[bytes], grants: list[int]) -> None:
    out = SendBuffer(1)
    for piece in pieces:
        out.add(piece)
    out.is_closing = True
    sent, allowed = b"", INITIAL_CREDIT
    for grant in itertools.islice(itertools.cycle(grants), 2000):
        while out.pending and out.is_sendable:
            taken = out.take()
            assert 0 < len(taken) <= MAX_FRAME_DATA
            sent += taken
        assert len(sent) <= allowed
        if not out.pending:
            break
        out.grant(grant)
        allowed += grant
    whole = b"".join(pieces)
    assert sent == whole[: len(sent)]
    assert out.pending == len(whole) - len(sent)


def test_credit_is_counted_on_both_sides() -> None:
    incoming = ReceiveWindow()
    incoming.consume(INITIAL_CREDIT // 2 - 1)
    assert incoming.grant() == 0
    incoming.consume(1)
    assert incoming.grant() == INITIAL_CREDIT // 2
    incoming.consume(INITIAL_CREDIT)
    with pytest.raises(ProtocolError, match="more bytes than granted credit"):
        incoming.consume(1)
    out = SendBuffer(1)
    with pytest.raises(ProtocolError, match="credit exceeds the maximum"):
        out.grant(0xFFFFFFFF)


def test_a_window_is_a_number() -> None:
    (frame,) = FrameReader().feed(encode_window(3, 77))
    assert decode_window(frame.payload) == 77
    with pytest.raises(ProtocolError, match="invalid credit in WINDOW frame"):
        decode_window(b"123")
