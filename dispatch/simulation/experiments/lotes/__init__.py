"""The experiments of the LoTES paper."""
