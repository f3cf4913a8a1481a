"""Bundles given other machines at the same times: whom to put elsewhere so that one more fits."""
