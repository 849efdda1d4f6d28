"""The actor of an instance: loads it, runs the engine, saves, then replies and dispatches effects."""
