"""Checks of /readyz that leave the server ready."""

from __future__ import annotations

from typing import Any, cast

from shoal.apiserver.endpoints.nonresource import NonResourceHandler


def test_a_notice_is_shown_and_the_server_stays_ready() -> None:
    nothing = cast(Any, None)
    handler = NonResourceHandler(nothing, nothing, nothing, nothing)
    handler.notices["bus"] = lambda: "no connection to the bus for 20 s"
    assert handler._health("readyz", "", "").body == b"ok"
    shown = handler._health("readyz", "", "verbose")
    assert shown.status == 200
    assert shown.body == b"[+]ping ok\n[-]bus failed: no connection to the bus for 20 s\nreadyz check passed\n"
    assert handler._health("readyz", "bus", "").status == 500
    assert handler._health("livez", "bus", "").status == 404
    handler.notices["bus"] = lambda: ""
    assert handler._health("readyz", "bus", "").status == 200
