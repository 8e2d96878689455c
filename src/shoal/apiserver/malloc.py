"""Tunes glibc's allocator for TLS on a large heap.

Each TLS read allocates a large buffer at the top of the heap; by default glibc gives it back to the kernel
after every read, which costs more than half of the throughput once many objects are held.
"""

from __future__ import annotations

import ctypes
import os

_MIB = 1024 * 1024
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_OPTIONS = (
    (_M_TRIM_THRESHOLD, 512 * _MIB),
    (_M_MMAP_THRESHOLD, 32 * _MIB),  # the maximum every glibc accepts
    (_M_TOP_PAD, 16 * _MIB),
)


def tune() -> bool:
    """Returns whether the allocator is glibc's and accepted every option."""
    if not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    accepted = [mallopt(option, value) == 1 for option, value in _OPTIONS]
    return all(accepted)


def trim() -> None:
    """Returns free memory to the kernel. This takes a millisecond for some megabytes."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):
        return False
