"""Rearrange a Plan: remove, move and put back reservations on a draft."""
