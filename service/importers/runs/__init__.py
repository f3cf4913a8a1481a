"""Runs of jobs that ended, read from what clusters keep of them.

``finished_run``: what every reader returns. ``recurring_names``: which runs are of one job. One
file for each format; ``reading`` knows them all and tells them apart.
"""
