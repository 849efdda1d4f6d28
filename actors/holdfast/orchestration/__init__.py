"""Orchestrations: ordinary async functions whose history is kept, so that they outlive every process they run in."""
