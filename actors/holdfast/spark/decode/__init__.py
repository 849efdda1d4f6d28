"""Decodes rows of the state store into rows of tables."""
