"""Effects that must happen once: one record per tenant and key, with its lease and its result."""
