"""The API describes itself: OpenAPI from the route table, and the page /docs."""
