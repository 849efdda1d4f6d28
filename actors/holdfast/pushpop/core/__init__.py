"""The queue as pure state machines: no I/O, no clock."""
