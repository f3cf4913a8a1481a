"""Experiments: functions from seeds and sizes to tables."""
