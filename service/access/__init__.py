"""Access: the user of a call, and the rights of its role."""
