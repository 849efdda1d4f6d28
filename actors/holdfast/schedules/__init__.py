"""Schedules: orchestrations that start at the times of a cron expression, or at an interval."""
