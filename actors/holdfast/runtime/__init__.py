"""Hosts that run actors: one contract, and one folder for each host that implements it."""
