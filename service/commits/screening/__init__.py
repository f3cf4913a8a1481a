"""Whether a change may happen, and where what it asks for is placed."""
