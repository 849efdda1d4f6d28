"""The orchestration engine: histories in, decisions and effects out. No I/O, no clock."""
