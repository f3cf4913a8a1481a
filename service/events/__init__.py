"""What commits change, as events: read from records as they are applied, and kept for a while."""
