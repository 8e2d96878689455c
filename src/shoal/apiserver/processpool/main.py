"""Main module of a child process: answers one task after another on the socket that is its standard input.

`python -m shoal.apiserver.processpool.main MODULE PARENT MEMORY`: the functions in `TASKS` of the module are called by
name. The process ends with its parent: at the end of its input, or by a signal in the middle of a task.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from shoal.apiserver.processpool.frames import MAX_FRAME_BYTES, PREFIX, decode_frame, encode_frame
from shoal.objects.errors import StatusError

Task = Callable[[dict[str, Any], list[bytes]], tuple[Mapping[str, Any], Sequence[bytes]]]

_NICENESS = 5
"""The event loop has priority."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def serve(connection: socket.socket, tasks: Mapping[str, Task]) -> None:
    source = connection.makefile("rb")
    while prefix := source.read(PREFIX.size):
        head_length, rest_length = PREFIX.unpack(prefix)
        header, blobs = decode_frame(source.read(head_length), source.read(rest_length))
        _set_cpu_limit(header.pop("cpu_seconds"))
        for piece in _reply(tasks[header.pop("task")], header, blobs):
            connection.sendall(piece)
        del header, blobs


def _reply(task: Task, header: dict[str, Any], blobs: list[bytes]) -> list[bytes]:
    pieces = encode_frame(*_run(task, header, blobs))
    return pieces if sum(map(len, pieces)) <= MAX_FRAME_BYTES else encode_frame({"out_of_memory": True}, ())


def _run(task: Task, header: dict[str, Any], blobs: list[bytes]) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    try:
        return task(header, blobs)
    except StatusError as error:
        return {"status": error.to_status()}, ()
    except MemoryError:
        return {"out_of_memory": True}, ()
    except Exception as error:
        return {"failure": type(error).__name__, "traceback": traceback.format_exc()[-4000:]}, ()


def _set_cpu_limit(seconds: int) -> None:
    """The kernel ends the process with SIGXCPU when the task has used that much. C code cannot delay it."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))


def _restrict(parent: int, memory_bytes: int) -> None:
    with suppress(ValueError, OSError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    with suppress(OSError, AttributeError):  # Linux only
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:  # it has ended before the signal was set
        sys.exit(1)
    os.nice(_NICENESS)


def main() -> None:
    module, parent, memory_bytes = sys.argv[1:]
    _restrict(int(parent), int(memory_bytes))
    with socket.socket(fileno=os.dup(0)) as connection, suppress(BrokenPipeError, ConnectionResetError):
        serve(connection, import_module(module).TASKS)


if __name__ == "__main__":
    main()
