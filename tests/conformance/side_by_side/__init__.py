"""The same requests to the embedded host and to the daprd that runs beside it."""
