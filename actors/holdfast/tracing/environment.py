"""Begins tracing as OpenTelemetry's environment variables say."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from holdfast.errors import SettingsError
from holdfast.tracing import spans

log = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_own_provider: Any = None


def set_up(*, only_existing: bool = False) -> None:
    """Begins tracing if the program has a tracer provider, or if the variables name an exporter or an endpoint.

    Call it after the apps were imported, which may set a provider. With ``only_existing`` the variables are not
    considered. Raises SettingsError for an exporter that is not installed.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    if (provider := _existing()) is not None:
        spans.begin(provider)
        return
    exporters = [] if only_existing else _exporters()
    if not exporters:
        return
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("OpenTelemetry's variables ask for traces, which need: pip install 'holdfast[tracing]'")
        return
    provider = TracerProvider(resource=Resource.create(_named()))
    for name in exporters:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    # The activities' own instrumentation finds it there.
    trace.set_tracer_provider(provider)
    global _own_provider
    _own_provider = provider
    spans.begin(provider)


def shut_down() -> None:
    """Exports the spans that are left, and ends tracing. A provider of the program is left to the program."""
    global _own_provider
    provider, _own_provider = _own_provider, None
    spans.begin(None)
    if provider is not None:
        provider.shutdown()


def _existing() -> Any:
    """Returns the tracer provider that the program has set, if it is one of the SDK."""
    sdk, api = sys.modules.get("opentelemetry.sdk.trace"), sys.modules.get("opentelemetry.trace")
    if sdk is None or api is None:
        return None
    provider = api.get_tracer_provider()
    return provider if isinstance(provider, sdk.TracerProvider) else None


def _exporters() -> list[str]:
    named = os.environ.get("OTEL_TRACES_EXPORTER", "")
    if not named.strip():
        named = "otlp" if any(os.environ.get(name) for name in _ENDPOINTS) else "none"
    return [name for name in (part.strip() for part in named.split(",")) if name not in ("", "none")]


def _exporter(name: str) -> Any:
    # Imported here because it is slow.
    from importlib.metadata import entry_points

    wanted = name
    if name == "otlp":
        protocol = next((found for variable in _PROTOCOLS if (found := os.environ.get(variable))), "http/protobuf")
        wanted = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    for entry in entry_points(group="opentelemetry_traces_exporter", name=wanted):
        return entry.load()()
    raise SettingsError(
        f"The exporter {name} for traces is not installed ({wanted}): install its package, or set another one in "
        "OTEL_TRACES_EXPORTER."
    )


def _named() -> dict[str, str]:
    """Returns the name of the service, unless the variables have one."""
    given = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return {} if given else {"service.name": "holdfast"}
