"""Cover: which components of executions are covered by entitlements and their slots."""
