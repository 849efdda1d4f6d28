"""What runs activities: beside the server, or in processes of its own."""
