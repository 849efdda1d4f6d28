"""The queue's public face: actor interface, configuration, requests, replies and commands."""
