"""What operators do to a database as a whole: back it up, restore it, bring it up to date."""
