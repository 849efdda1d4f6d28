"""The interface, requests and replies of a schedule."""
