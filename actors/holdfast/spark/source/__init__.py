"""The Spark data source: options, schemas, batch reader and stream."""
