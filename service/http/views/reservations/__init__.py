"""Calls of reservations, offers, holds, RDL and explanations."""
