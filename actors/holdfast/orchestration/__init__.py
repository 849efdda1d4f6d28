"""Orchestrations: async functions whose recorded history lets them survive the processes they run in."""
