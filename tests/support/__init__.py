"""Helpers of several suites: servers and stacks to test, waiting for conditions, drivers of single parts."""
