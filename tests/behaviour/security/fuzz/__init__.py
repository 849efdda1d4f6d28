"""Generated and mutated requests against a real server, for ``test_fuzz.py`` and for longer runs by hand."""
