"""The bench cases, one self-registering file each."""
