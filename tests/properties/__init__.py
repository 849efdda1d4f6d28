"""Properties that hold for all operations and all faults, checked with random ones."""
