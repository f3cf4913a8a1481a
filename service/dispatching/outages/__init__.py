"""Machines that the Plan may not use: lost, reserved by others, or kept free."""
