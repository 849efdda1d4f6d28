"""Translates a pod's annotations as Dapr's injector does, to start the same daprd without a cluster."""

from __future__ import annotations

# As pkg/injector/patcher/sidecar_container.go of Dapr 1.18.2 has them.
SIDECAR_FLAGS = {
    "dapr.io/app-id": "--app-id",
    "dapr.io/app-port": "--app-port",
    "dapr.io/config": "--config",
    "dapr.io/max-body-size": "--max-body-size",
    "dapr.io/log-as-json": "--log-as-json",
    "dapr.io/disable-builtin-k8s-secret-store": "--disable-builtin-k8s-secret-store",
    "dapr.io/enable-app-health-check": "--enable-app-health-check",
    "dapr.io/app-health-check-path": "--app-health-check-path",
    "dapr.io/app-health-probe-interval": "--app-health-probe-interval",
    "dapr.io/app-health-probe-timeout": "--app-health-probe-timeout",
    "dapr.io/app-health-threshold": "--app-health-threshold",
    "dapr.io/graceful-shutdown-seconds": "--dapr-graceful-shutdown-seconds",
}

# These shape the container, not daprd's command line (annotations.go of the same version).
SIDECAR_SETTINGS = {
    "dapr.io/enabled",
    "dapr.io/app-token-secret",
    "dapr.io/enable-native-sidecar",
    "dapr.io/sidecar-cpu-request",
    "dapr.io/sidecar-memory-request",
    "dapr.io/sidecar-memory-limit",
    "dapr.io/sidecar-seccomp-profile-type",
}


def daprd_arguments(annotations: dict[str, str], **instead: str) -> list[str]:
    """daprd's command line for these annotations; `instead` replaces values by flag, dashes as underscores."""
    arguments: list[str] = []
    for annotation, flag in SIDECAR_FLAGS.items():
        value = instead.get(flag.strip("-").replace("-", "_"), annotations.get(annotation))
        if value == "true":
            arguments.append(flag)
        elif value is not None:
            arguments += [flag, value]
    return arguments
