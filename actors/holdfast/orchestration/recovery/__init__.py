"""Recovery after a crash or a deploy: undispatched outboxes, blocked instances, fresh ids."""
