"""The experiments of Zoe's papers."""
