"""Word lists of CLASH categories, one text file a category; `lexicon.py` explains their form."""
