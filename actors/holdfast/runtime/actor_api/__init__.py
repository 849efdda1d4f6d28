"""Dapr's actor API as data: durations, transactions and error bodies."""
