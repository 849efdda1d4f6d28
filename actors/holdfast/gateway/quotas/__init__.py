"""Quotas of tenants and their usage."""
