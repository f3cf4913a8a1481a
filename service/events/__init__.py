"""Events of commits: derived from records as they are applied, and cached for a while."""
