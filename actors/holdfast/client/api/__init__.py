"""The REST calls of the client: connection, encoding, one method for each call."""
