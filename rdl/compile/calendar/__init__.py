"""Civil time: zones, days that are left out, and windows that come again."""
