"""Effects that must happen once: a record for each tenant and key, of who runs it and what came of it."""
