"""The indexes that list instances and tenants, because Dapr cannot list actors."""
