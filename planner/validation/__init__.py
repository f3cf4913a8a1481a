"""The validator: is every promise of a plan kept, by the document alone?"""
