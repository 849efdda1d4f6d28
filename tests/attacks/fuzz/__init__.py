"""Generated and mutated requests against a real server: ``python -m attacks.fuzz`` and ``test_fuzz.py``."""
