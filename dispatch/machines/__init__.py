"""The machines of the cluster, and the choice of a machine for a component."""
