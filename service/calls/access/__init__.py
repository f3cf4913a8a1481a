"""Who may call and see what: tokens, the audit, and what is visible to a user."""
