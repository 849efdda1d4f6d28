"""CPython's own tests of asyncio, taken from the interpreter that runs them, inside orchestrations."""
