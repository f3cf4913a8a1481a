"""Other forms of a request: RDL as JSON, and YARN's reservation definitions."""
