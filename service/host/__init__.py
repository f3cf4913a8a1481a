"""Host facilities for a process: memory, other processes, temporary folders."""
