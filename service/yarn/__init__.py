"""YARN's reservation calls on Agenda's Plan, with YARN's formats, rules and errors."""
