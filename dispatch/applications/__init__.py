"""Applications of users, and the file formats they are read from."""
