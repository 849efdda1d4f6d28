"""The HTTP interface of a server. Its routes do not depend on how actors store their state."""
