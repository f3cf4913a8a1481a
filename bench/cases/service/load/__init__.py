"""What loads a server under measurement: its processes, and clients that post and keep a pace."""
