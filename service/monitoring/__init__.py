"""What operators measure: figures of the Plan for Prometheus, and bundles for support."""
