"""``GET /events``: which things have changed, as server-sent events."""
