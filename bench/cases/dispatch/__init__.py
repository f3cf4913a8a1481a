"""The dispatcher's cycle, LoTES' tables and the simulators."""
