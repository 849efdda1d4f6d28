"""Orchestrations on a simulated host, while the host, its code, its queues and its clock give trouble."""
