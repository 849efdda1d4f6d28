"""The stored form of an instance: its record, outbox, inbox and unread mail. No I/O."""
