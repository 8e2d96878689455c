"""The flags envtest passes to kube-apiserver: supported ones, ignored ones, and no others. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

SUPPORTED_FLAGS = {
    "advertise-address": "Address that clients use, if it differs from --bind-address.",
    "audit-log-maxbackup": "Number of rotated audit logs to keep; 0 keeps all.",
    "audit-log-maxsize": "Size in megabytes at which the audit log is rotated.",
    "audit-log-path": "Audit log of all requests; - means standard output.",
    "audit-policy-file": "Audit Policy: which requests are logged.",
    "authorization-mode": "Must include RBAC.",
    "bind-address": "Address to listen on.",
    "cert-dir": "Directory of apiserver.crt and apiserver.key, if --tls-cert-file is not given.",
    "client-ca-file": "Authority of client certificates: CN is the user name, each O a group.",
    "disable-admission-plugins": "Unless it includes ServiceAccount, every namespace gets a default ServiceAccount.",
    "etcd-servers": "etcd or its replacement; selects the data of this server.",
    "secure-port": "Port to listen on.",
    "tls-cert-file": "Serving certificate.",
    "tls-private-key-file": "Key of the serving certificate.",
    "token-auth-file": "Static tokens: token,user,uid,groups.",
}
IGNORED_FLAGS = (
    "admission-control-config-file", "allow-privileged", "anonymous-auth", "api-audiences", "audit-log-format",
    "audit-log-maxage", "audit-log-mode", "audit-webhook-config-file", "audit-webhook-mode", "contention-profiling",
    "default-watch-cache-size", "delete-collection-workers", "emulated-version", "enable-admission-plugins",
    "enable-aggregator-routing", "enable-bootstrap-token-auth", "enable-garbage-collector",
    "enable-priority-and-fairness", "endpoint-reconciler-type", "etcd-cafile", "etcd-certfile",
    "etcd-compaction-interval", "etcd-count-metric-poll-period", "etcd-keyfile", "etcd-prefix", "event-ttl",
    "external-hostname", "feature-gates", "goaway-chance", "kubelet-certificate-authority",
    "kubelet-client-certificate", "kubelet-client-key", "kubelet-preferred-address-types", "livez-grace-period",
    "logging-format", "max-mutating-requests-inflight", "max-requests-inflight", "min-request-timeout",
    "permit-port-sharing", "profiling", "proxy-client-cert-file", "proxy-client-key-file", "request-timeout",
    "requestheader-allowed-names", "requestheader-client-ca-file", "requestheader-extra-headers-prefix",
    "requestheader-group-headers", "requestheader-username-headers", "runtime-config",
    "service-account-extend-token-expiration", "service-account-issuer", "service-account-jwks-uri",
    "service-account-key-file", "service-account-lookup", "service-account-max-token-expiration",
    "service-account-signing-key-file", "service-cluster-ip-range", "service-node-port-range",
    "shutdown-delay-duration", "shutdown-send-retry-after", "storage-backend", "storage-media-type",
    "strict-transport-security-directives", "tls-cipher-suites", "tls-min-version", "v", "vmodule", "watch-cache",
    "watch-cache-sizes",
)  # fmt: skip
"""kube-apiserver has them. Here they have no effect, and a warning says so."""
SILENT_FLAGS = frozenset({
    "allow-privileged", "service-account-issuer", "service-account-key-file", "service-account-signing-key-file",
    "service-cluster-ip-range", "v",
})  # fmt: skip
"""envtest always passes them, so there is no warning."""

CONTROLLERS_VARIABLE = "SHOAL_ENVTEST_LOOPS"
CONTROLLER_SETS = ("cleaning", "cluster", "none")
"""The first is the default: namespaces are deleted, owned objects are deleted with their owners, and nothing else
changes by itself.
"""


class FlagError(Exception):
    """Uses kube-apiserver's message if it has one."""


@dataclass(frozen=True)
class Flags:
    values: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    help: bool = False

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    @property
    def has_service_accounts(self) -> bool:
        return "ServiceAccount" not in self.get("disable-admission-plugins").split(",")


def parse(arguments: list[str]) -> Flags:
    """Parses `--name=value`, `--name value` or `--name`. A repeated flag replaces the first value, except for lists of
    plugins.
    """
    values: dict[str, str] = {}
    warnings: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-h", "--help"):
            return Flags(help=True)
        if not word.startswith("--") and word != "-v":
            raise FlagError(f'"kube-apiserver" does not take any arguments, got ["{word}"]')
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("-") else "true"
        if name in IGNORED_FLAGS:
            if name not in SILENT_FLAGS:
                warnings.append(f"--{name} has no effect here")
            continue
        if name not in SUPPORTED_FLAGS:
            raise FlagError(f"unknown flag: --{name}")
        values[name] = f"{values[name]},{value}" if name == "disable-admission-plugins" and name in values else value
    _check_values(values)
    return Flags(values, tuple(warnings))


def _check_values(values: dict[str, str]) -> None:
    port = values.get("secure-port", "6443")
    if not port.isdigit() or not 0 <= int(port) <= 65535:
        raise FlagError(f'invalid argument "{port}" for "--secure-port" flag')
    modes = values.get("authorization-mode", "RBAC").split(",")
    if "RBAC" not in modes:
        raise FlagError(f"--authorization-mode={','.join(modes)}: must include RBAC")
    if "AlwaysAllow" in modes:
        raise FlagError("--authorization-mode: AlwaysAllow is not supported")
    if not values.get("etcd-servers"):
        raise FlagError("--etcd-servers must be specified")


def usage() -> str:
    lines = ["Shoal as a replacement for kube-apiserver.", "", "Flags:"]
    lines += [f"      --{name:<28} {text}" for name, text in SUPPORTED_FLAGS.items()]
    lines += ["", "Accepted without effect:"] + [f"      --{name}" for name in IGNORED_FLAGS]
    return "\n".join(lines) + "\n"
