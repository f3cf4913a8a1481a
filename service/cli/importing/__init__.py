"""`agenda import`: traces and other systems' requests as workload lines."""
