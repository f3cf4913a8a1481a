"""The pages for browsers: HTML shells, modules, styles, and their headers."""
