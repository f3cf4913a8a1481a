"""The validator: check from the plan document only that every promise is kept."""
