"""What several suites share: servers and stacks to test, waiting for conditions, drivers of single parts."""
