"""The HTTP face of a server: routes that know nothing of how actors keep their state."""
