"""Benchmarks of Holdfast and its peers on this machine: ``python -m benchmarks``."""
