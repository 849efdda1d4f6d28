"""Dapr's actor API over the embedded host."""
