"""A batch of changes judged on a Plan, each after those before it."""
