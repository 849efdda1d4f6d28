"""Tokens, principals with their roles, and the audit log."""
