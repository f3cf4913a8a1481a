"""The page for browsers: shells in HTML, modules, styles, and the headers they are sent with."""
