"""String formats: samples that kube-apiserver accepts and rejects."""

from __future__ import annotations

import pytest

from shoal.objects.schema.formats import FORMATS, format_check, is_recognized

SAMPLES: dict[str, tuple[list[str], list[str]]] = {
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["x"]),
    "byte": (["YQ==", "YWJj"], ["", "YQ=", "a!"]),
    "cidr": (["10.0.0.0/8", "::/0", "1.2.3.4/08"], ["10.0.0.0/33", "10.0.0.1", "fd00::/129"]),
    "creditcard": (["4111-1111-1111-1111"], ["4111111111111112"]),
    "date": (["2024-01-01", "2024-02-29"], ["2024-13-01", "2023-02-29", "x"]),
    "date-time": (
        ["2024-01-01T00:00:00Z", "2024-01-01t00:00:00z", "2024-01-01T00:00:00.123+01:00"],
        ["2024-02-30T00:00:00Z", "2024-01-01", "2024-01-01T25:00:00Z", ""],
    ),
    "duration": (["1h", "5m3s", "2 days", "1.5h", "-1s", "0", "1w", "5 minutes"], ["x", "", "1 fortnight", "3"]),
    "email": (["a@b.c", "a@b", "A B <a@b.c>", "<a@b>", '"x y"@z'], ["a", "@b", "a b@c", "a@b,c@d", "a.@b"]),
    "hexcolor": (["#fff", "ffffff"], ["#ffff"]),
    "hostname": (["a", "example.com", "x-y.com", "é.fr", "A.COM"], ["my-host", "a.b", "-a", "a_b.com", "1.2", "a..b"]),
    "ipv4": (["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"], ["1.2.3", "1.2.3.256", "::1", "1.2.3.4 "]),
    "ipv6": (["::1"], ["1.2.3.4", "fe80::1%eth0", "x:"]),
    "isbn": (["0321751043", "978-0321751041"], ["0321751044"]),
    "isbn10": (["097522980X"], ["9780321751041"]),
    "isbn13": (["978-0321751041"], ["0321751043"]),
    "k8s-long-name": (["a.b"], ["a..b", "a" * 254]),
    "k8s-short-name": (["a-b"], ["a.b", "A", "a-", "a" * 64]),
    "mac": (["00:11:22:33:44:55", "0011.2233.4455"], ["00:11:22:33:44", "00:11-22:33:44:55"]),
    "password": (["", "x"], []),
    "rgbcolor": (["rgb(1, 2,3)"], ["rgb(256,0,0)"]),
    "ssn": (["111-22-3333"], ["111223333"]),
    "uri": (
        ["http://a/b", "/x", "a:b", "http://[::1]:80/", "mailto:x@y", "/a b"],
        ["x", "http://a b/", "http://a:x/", ""],
    ),
    "uuid": (["0b0d4b3e-7d3c-4b8e-9b5c-1d2e3f4a5b6c", "0B0D4B3E7D3C4B8E9B5C1D2E3F4A5B6C"], ["x"]),
    "uuid3": (["0b0d4b3e-7d3c-3b8e-9b5c-1d2e3f4a5b6c"], ["0b0d4b3e-7d3c-4b8e-9b5c-1d2e3f4a5b6c"]),
    "uuid4": (["0b0d4b3e-7d3c-4b8e-9b5c-1d2e3f4a5b6c"], ["0b0d4b3e-7d3c-4b8e-7b5c-1d2e3f4a5b6c"]),
    "uuid5": (["0b0d4b3e-7d3c-5b8e-9b5c-1d2e3f4a5b6c"], ["0b0d4b3e-7d3c-4b8e-9b5c-1d2e3f4a5b6c"]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_format(name: str) -> None:
    check = format_check(name)
    assert check is not None
    good, bad = SAMPLES[name]
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []


def test_long_texts_take_no_time() -> None:
    for text in ("1" * 1_000_001, "1 " * 500_000, "a" * 1_000_001, " " * 1_000_000, "YWJj" * 250_000 + "!"):
        assert not any(check(text) for name, check in FORMATS.items() if name not in ("password", "duration"))
    assert not FORMATS["duration"]("1" * 1_000_000)
    assert not FORMATS["ipv4"]("1000000000001.2.3.4")


def test_every_format_has_samples() -> None:
    assert {name.replace("-", "") for name in SAMPLES} == FORMATS.keys()


def test_which_formats_count_for_which_type() -> None:
    assert is_recognized("date-time", "string")
    assert is_recognized("datetime", "")
    assert is_recognized("int32", "integer")
    assert is_recognized("double", "number")
    assert not is_recognized("int32", "string")
    assert not is_recognized("uint8", "integer")
    assert not is_recognized("date", "object")
