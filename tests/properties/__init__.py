"""What always holds of a queue, whatever is asked of it and whatever breaks."""
