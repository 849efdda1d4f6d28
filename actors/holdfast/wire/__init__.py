"""The wire format between processes: converts refusals in actor replies to exceptions."""
