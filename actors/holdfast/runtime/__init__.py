"""Where actors run: one contract, and one folder for each host that keeps it."""
