"""The resources of the API, one file a noun: what each call reads, does and answers."""
