"""Plans that take more than there is, and how their overload is taken away again."""
