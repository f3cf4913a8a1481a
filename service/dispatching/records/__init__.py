"""Records of the dispatch leader in the database, for its successor and other processes."""
