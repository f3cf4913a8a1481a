"""Promises on machines: slots for atoms, whole admissions, machines that are lost."""
