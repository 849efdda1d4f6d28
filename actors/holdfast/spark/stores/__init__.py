"""The databases that the data source reads: SQLite and PostgreSQL."""
