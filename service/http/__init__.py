"""HTTP: routes, who may call, what a request holds; the kit that makes routes of functions."""
