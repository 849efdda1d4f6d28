"""The ``holdfast`` command: one module for each group of commands."""
