"""What a user runs: applications, and the file forms they are read from."""
