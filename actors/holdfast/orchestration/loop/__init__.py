"""The deterministic event loop that orchestrations run on."""
