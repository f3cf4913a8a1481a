"""What stands beside the log of commits: the audit, the archive, answers, the format."""
