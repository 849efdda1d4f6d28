"""The worker, which runs activities in the server's process or in a process of its own."""
