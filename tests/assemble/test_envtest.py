"""The programs of `shoal envtest` are started as envtest starts kube-apiserver and etcd, with the same kind of
certificates.
"""

from __future__ import annotations

import datetime
import http.client
import ipaddress
import json
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bench.servers import free_port
from shoal.assemble.envtest.flags import FlagError, parse, usage
from shoal.cli.envtest import command
from tests.serving import HANG

LOOPBACK = ipaddress.ip_address("127.0.0.1")
DEFAULTS = ["--etcd-servers=http://127.0.0.1:1", "--authorization-mode=RBAC"]


def test_flags_are_kept_or_said_to_change_nothing() -> None:
    found = parse([*DEFAULTS, "--secure-port=7", "--bind-address", "127.0.0.1", "--feature-gates=A=true", "--v=4"])
    assert (found.get("secure-port"), found.get("bind-address")) == ("7", "127.0.0.1")
    assert found.warnings == ("--feature-gates has no effect here",)
    assert found.has_service_accounts
    plugins = [*DEFAULTS, "--disable-admission-plugins=A", "--disable-admission-plugins=ServiceAccount"]
    assert not parse(plugins).has_service_accounts


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--nonsense=1"], "unknown flag: --nonsense"),
        (["--insecure-port=0"], "unknown flag: --insecure-port"),
        (["word"], '"kube-apiserver" does not take any arguments, got ["word"]'),
        (["--secure-port=x"], 'invalid argument "x" for "--secure-port" flag'),
        (
            ["--authorization-mode=AlwaysAllow"],
            "--authorization-mode=AlwaysAllow: must include RBAC",
        ),
        (["--etcd-servers="], "--etcd-servers must be specified"),
    ],
)
def test_other_flags_are_refused(flags: list[str], said: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse([*DEFAULTS, *flags])
    assert str(caught.value) == said


def test_help_is_what_envtest_looks_for_flags_in() -> None:
    assert parse(["--help"]).help
    assert "\n      --secure-port " in usage()
    assert "--insecure-port" not in usage()


class EnvtestCA:
    """A certificate authority as small as envtest's."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "envtest-environment")])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage_ = x509.KeyUsage(True, False, True, False, False, True, False, False, False)
        self.certificate = builder.add_extension(usage_, critical=True).sign(self._key, hashes.SHA256())

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(
            now - datetime.timedelta(minutes=1)
        )
        builder = builder.not_valid_after(now + datetime.timedelta(days=7))
        return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)

    def issue(self, directory: Path, file: str, name: str, groups: tuple[str, ...] = ()) -> None:
        """Issues a server certificate for `localhost`, otherwise one for a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        parts += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        builder = self._builder(x509.Name(parts), key.public_key())
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        use = ExtendedKeyUsageOID.SERVER_AUTH if name == "localhost" else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if name == "localhost":
            names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(LOOPBACK)])
            builder = builder.add_extension(names, critical=False)
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (directory / f"{file}.key").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        (directory / f"{file}.crt").write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(pem))

    def write(self, file: Path) -> None:
        file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    done = CliRunner().invoke(command, ["--dir", str(tmp_path / "assets")], catch_exceptions=False)
    assert f"export KUBEBUILDER_ASSETS={tmp_path / 'assets'}" in done.output
    return tmp_path / "assets"


@pytest.fixture
def etcd(assets: Path, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    url = f"http://127.0.0.1:{free_port()}"
    data = tmp_path / "etcd"
    flags = [f"--listen-client-urls={url}", f"--data-dir={data}", "--unsafe-no-fsync=true"]
    process = subprocess.Popen([assets / "etcd", *flags])
    yield url, process
    process.kill()
    process.wait()


def wait_until_healthy(connect: type[http.client.HTTPConnection], url: str, path: str, **more: object) -> None:
    end = time.monotonic() + HANG
    while True:
        connection = connect(url.partition("//")[2], timeout=HANG, **more)  # type: ignore[arg-type]
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.02)
        finally:
            connection.close()


class EnvtestProcess:
    def __init__(self, assets: Path, etcd: str, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        serving, users = EnvtestCA(), EnvtestCA()
        serving.issue(directory, "apiserver", "localhost")
        serving.write(directory / "serving-ca.crt")
        users.issue(directory, "admin", "admin", ("system:masters",))
        users.issue(directory, "nobody", "nobody")
        users.write(directory / "client-auth-ca.crt")
        self._directory, self.port = directory, free_port()
        self.process = subprocess.Popen(
            [
                assets / "kube-apiserver", "--allow-privileged=true", "--authorization-mode=RBAC",
                "--bind-address=127.0.0.1", f"--cert-dir={directory}", f"--secure-port={self.port}",
                f"--client-ca-file={directory / 'client-auth-ca.crt'}", "--disable-admission-plugins=ServiceAccount",
                f"--etcd-servers={etcd}", f"--service-account-issuer=https://127.0.0.1:{self.port}/",
                "--service-account-key-file=none", "--service-account-signing-key-file=none",
                "--service-cluster-ip-range=10.0.0.0/24",
            ],
        )  # fmt: skip
        wait_until_healthy(
            http.client.HTTPSConnection, f"https://127.0.0.1:{self.port}", "/healthz", context=self._tls()
        )

    def _tls(self, user: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._directory / "serving-ca.crt")
        if user:
            context.load_cert_chain(self._directory / f"{user}.crt", self._directory / f"{user}.key")
        return context

    def request(self, user: str, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self._tls(user), timeout=HANG)
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG)


def test_a_control_plane_as_envtest_starts_it(
    assets: Path, etcd: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    url, store = etcd
    wait_until_healthy(http.client.HTTPConnection, url, "/health")
    server = EnvtestProcess(assets, url, tmp_path / "certificates")
    try:
        namespaces, maps = "/api/v1/namespaces", "/api/v1/namespaces/gone/configmaps"
        assert server.request("admin", "POST", namespaces, {"metadata": {"name": "gone"}})[0] == 201
        assert server.request("admin", "POST", maps, {"metadata": {"name": "a"}})[0] == 201
        refused, said = server.request("nobody", "GET", namespaces)
        assert (refused, str(said["message"])[:42]) == (403, 'namespaces is forbidden: User "nobody" can')
        assert server.request("admin", "DELETE", f"{namespaces}/gone")[0] == 200
        end = time.monotonic() + HANG
        # Nobody does this for users of envtest.
        while server.request("admin", "GET", f"{namespaces}/gone")[0] != 404:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert server.request("admin", "POST", namespaces, {"metadata": {"name": "kept"}})[0] == 201
    finally:
        code = server.stop()
    assert code == 0
    # Another one on the same etcd, with other certificates: what there was is there.
    again = EnvtestProcess(assets, url, tmp_path / "others")
    try:
        assert again.request("admin", "GET", f"{namespaces}/kept")[0] == 200
    finally:
        again.stop()
    store.send_signal(signal.SIGTERM)
    assert store.wait(HANG) == 0
