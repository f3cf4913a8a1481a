"""The core/elastic pool: claims, their order, and their grants."""
