"""Actors in this process: turns, reminders, timers and storage of the embedded and simulated hosts."""
