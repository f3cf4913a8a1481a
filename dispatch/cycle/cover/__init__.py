"""What entitlements and their slots cover of the executions that name them."""
