"""What a recurring job will need next, learned from its earlier runs (Rayon, section 6.2.4).

``run``: what one run held over time. ``profile``: runs on one grid of buckets. ``effects``: drift
and days of the week. ``period``: how often a job comes. ``prediction``: an allocation that holds
the next run with a stated confidence. ``request``: that allocation in RDL. ``estimate``: all of it
for one job. ``back_test``: how often it would have held.
"""
