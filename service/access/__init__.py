"""Access: the user of a call, and what its role lets it see and change."""
