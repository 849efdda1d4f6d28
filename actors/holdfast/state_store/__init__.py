"""The database of a state store, apart from any host: copying, checking and moving it."""
