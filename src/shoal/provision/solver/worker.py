"""Main module of the solver process: requests on standard input, responses on standard output.

Each message is a length and a pickle, exchanged only with the parent process. A request names a function and has its
arguments. The process ends when its input is closed. Its argument is its niceness.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import sys
import traceback
from typing import Any, BinaryIO

LENGTH = struct.Struct("!Q")


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    while head := source.read(LENGTH.size):
        request = source.read(LENGTH.unpack(head)[0])
        try:
            function, arguments = pickle.loads(request)
            answer: tuple[bool, Any] = (True, function(*arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    # Output of libraries must not mix with the responses.
    os.dup2(2, 1)
    os.nice(int(sys.argv[1]))
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
