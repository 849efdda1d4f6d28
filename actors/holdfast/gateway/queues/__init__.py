"""The REST routes of queues, and the distribution of a queue over its partitions."""
