"""Commands on files: plan, validate, compare, optimise, and what is shown of plans."""
