"""How far and how fast `exact` proves its plans."""
