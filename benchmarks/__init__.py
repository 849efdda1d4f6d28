"""What Holdfast costs, beside its peers, on this machine: ``python -m benchmarks``."""
