"""What the process that leads the dispatch keeps on disk, for its successor and the others."""
