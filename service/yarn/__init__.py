"""YARN's reservation calls: its forms, its rules and its errors, on Agenda's Plan."""
