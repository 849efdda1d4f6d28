"""The snapshot pipeline: copies every table, checks consistency, compares, writes a report."""
