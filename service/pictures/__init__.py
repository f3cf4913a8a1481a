"""Plans as pictures: skylines as SVG and PNG, and comparisons as one HTML page.

matplotlib is imported only here, and only when something is drawn.
"""
