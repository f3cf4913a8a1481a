"""Predict the next run of a recurring job from its earlier runs (Rayon, section 6.2.4).

``run``: containers of one run over time. ``profile``: runs on one grid of buckets. ``effects``:
drift and days of the week. ``period``: how often a job runs. ``prediction``: an allocation that
holds the next run with a stated confidence. ``request``: that allocation in RDL. ``estimate``: all
of this for one job. ``back_test``: how often predictions would have held.
"""
