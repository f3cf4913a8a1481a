"""Single figures of Rayon, LoTES and Zoe: a module for each, or for those that come of one run.

A folder of their own because experiments of several figures stand beside it, one a family.
"""
