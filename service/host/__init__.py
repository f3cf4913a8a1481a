"""What a process asks of its host: its memory, other processes, folders for a while."""
