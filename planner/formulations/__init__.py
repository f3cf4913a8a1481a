"""Mathematical models of planning: build(...) -> model and index; decode(values, index)."""
