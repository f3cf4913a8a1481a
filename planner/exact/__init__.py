"""The exact planner's room: a bound valid at any prices, plans by ruin and recreate, the router."""
