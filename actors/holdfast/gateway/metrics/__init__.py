"""Prometheus metrics of this process and of the queues."""
