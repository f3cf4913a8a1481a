"""Draw Plans: skylines as SVG and PNG, and comparisons as an HTML page.

Only this package imports matplotlib, and only when it draws.
"""
