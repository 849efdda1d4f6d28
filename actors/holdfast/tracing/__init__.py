"""Traces: W3C trace contexts, spans, and OpenTelemetry's set-up. OpenTelemetry is imported only where it is used."""
