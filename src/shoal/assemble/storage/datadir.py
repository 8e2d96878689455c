"""The data directory: its lock, its format, and the files that users look for in it."""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from shoal.objects.errors import ShoalError

FORMAT_VERSION = 2
"""2: keys of clusters are in the store, encrypted with `pki/cluster-keys.key`."""
HUB_KUBECONFIG = "hub.kubeconfig"
"""The kubeconfig of a worker for its hub."""


LOOPBACK_URL_FILE = "loopback-url"
"""Where a server listens on this machine. Its kubeconfig has the advertised address, which may not resolve here."""


class DataDirError(ShoalError):
    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def default_data_dir(environ: Mapping[str, str]) -> Path:
    if environ.get("SHOAL_DATA_DIR"):
        return Path(environ["SHOAL_DATA_DIR"])
    home = environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "shoal"


class DataDir:
    """Locked from construction until `close`: two servers never share one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_private_directory(path)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._lock, 32, 0).decode().strip() or "unknown"
            os.close(self._lock)
            raise DataDirError(
                f"{path} is in use by the shoal process {holder}",
                "stop that process, or use another directory: shoal up --data-dir DIR --listen 127.0.0.1:0",
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        self._check_format()

    def _check_format(self) -> None:
        file = self.path / "format"
        if not file.exists():
            write_private_file(file, f"{FORMAT_VERSION}\n")
            return
        text = file.read_text().strip()
        if not text.isdigit() or int(text) > FORMAT_VERSION:
            self.close()
            raise DataDirError(
                f"{self.path} has data format {text!r}, this shoal supports up to {FORMAT_VERSION}",
                "use the newer shoal that wrote it",
            )

    def write_format(self) -> None:
        """Called once the data has the current format."""
        if (self.path / "format").read_text().strip() != str(FORMAT_VERSION):
            write_private_file(self.path / "format", f"{FORMAT_VERSION}\n")

    def close(self) -> None:
        os.close(self._lock)

    def admin_token(self) -> str:
        file = self.path / "admin-token"
        if not file.exists():
            write_private_file(file, base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=") + "\n")
        return file.read_text().strip()

    def port(self, requested: int) -> int:
        """Port 0 picks a free one once and keeps it, so that kubeconfigs stay valid over restarts."""
        file = self.path / "port"
        if requested:
            return requested
        if file.exists() and file.read_text().strip().isdigit():
            return int(file.read_text().strip())
        return 0

    def save_port(self, port: int) -> None:
        write_private_file(self.path / "port", f"{port}\n")

    def save_loopback_url(self, host: str, port: int) -> None:
        """Stores where commands on this machine reach the server; nothing if it does not listen on loopback."""
        url = loopback_url(host, port)
        if url:
            write_private_file(self.path / LOOPBACK_URL_FILE, f"{url}\n")
        else:
            (self.path / LOOPBACK_URL_FILE).unlink(missing_ok=True)


def loopback_url(host: str, port: int) -> str:
    """Returns the loopback URL of a server that listens on `host`; empty if it listens on another interface only."""
    if host in ("0.0.0.0", "localhost"):
        host = "127.0.0.1"
    elif host in ("::", "::1"):
        host = "[::1]"
    return f"https://{host}:{port}" if host == "[::1]" or host.startswith("127.") else ""


def read_loopback_url(directory: Path) -> str:
    """Returns the loopback URL of the server that was last started with this data directory; empty if it has none."""
    try:
        return (directory / LOOPBACK_URL_FILE).read_text().strip()
    except OSError:
        return ""


def make_private_directory(path: Path) -> None:
    """Only the owner may enter it, also if it existed before."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def write_private_file(path: Path, text: str) -> None:
    """Writes atomically; the file is readable by the owner only."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def render_kubeconfig(server: str, authority: bytes, token: str, name: str = "shoal", server_name: str = "") -> str:
    """Formats it as kubectl does. YAML by hand, because nothing in it needs quoting. `server_name` is the name in the
    server's certificate; empty: the host of the URL.
    """
    named = f"\n    tls-server-name: {server_name}" if server_name else ""
    return f"""apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {base64.b64encode(authority).decode()}{named}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}-admin
current-context: {name}
users:
- name: {name}-admin
  user:
    token: {token}
"""


def serving_certificate_names() -> list[str]:
    """Returns the names of the serving certificate besides the listen address."""
    import socket  # noqa: PLC0415  every command loads this module, and only servers need that one

    names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    host = socket.gethostname()
    return [*names, "kubernetes.default.svc.cluster.local", *([host] if host else [])]
