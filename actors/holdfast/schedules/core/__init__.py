"""The schedule as a pure state machine, without I/O or clock."""
