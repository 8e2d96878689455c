"""The replacement for etcd: it serves /health and the location of its data directory, which Shoal fills.

A program of the standard library alone, started by its path, so that it starts before everything else.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FLAGS = (
    "advertise-client-urls", "auto-compaction-mode", "auto-compaction-retention", "client-cert-auth", "cert-file",
    "data-dir", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "initial-cluster-token",
    "key-file", "listen-client-urls", "listen-metrics-urls", "listen-peer-urls", "log-level", "log-outputs", "logger",
    "max-request-bytes", "name", "quota-backend-bytes", "snapshot-count", "trusted-ca-file", "unsafe-no-fsync",
)  # fmt: skip


def read_flags(arguments: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        if name not in FLAGS:
            raise SystemExit(f"error verifying flags, flag provided but not defined: -{name}. See 'etcd --help'.")
        flags[name] = value
    return flags


class EtcdRequestHandler(BaseHTTPRequestHandler):
    data_dir = ""

    def do_GET(self) -> None:
        answers = {
            "/health": {"health": "true", "reason": ""},
            "/version": {"etcdserver": "3.6.0", "etcdcluster": "3.6.0"},
            "/shoal": {"dataDir": self.data_dir},
        }
        found = answers.get(urlsplit(self.path).path)
        body = json.dumps(found).encode() if found else b"404 page not found\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json" if found else "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Disables the access log."""


def main() -> None:
    arguments = sys.argv[1:]
    if "--help" in arguments or "-h" in arguments:
        print("Shoal as a replacement for etcd.\n\nFlags:\n" + "\n".join(f"  --{name}" for name in FLAGS))
        return
    flags = read_flags(arguments)
    EtcdRequestHandler.data_dir = os.path.abspath(flags.get("data-dir") or "default.etcd")
    url = urlsplit(flags.get("listen-client-urls", "http://localhost:2379").split(",")[0])
    server = ThreadingHTTPServer((url.hostname or "127.0.0.1", url.port or 2379), EtcdRequestHandler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    server.serve_forever()


if __name__ == "__main__":
    main()
