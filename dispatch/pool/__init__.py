"""The core/elastic pool: claims, their order, and what each is granted."""
