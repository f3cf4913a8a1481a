"""The reference executor: runs components as processes of this machine, as a server wants them."""
