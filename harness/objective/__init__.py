"""The algebra of objectives: advantage × importance ratio × surrogate × aggregation × KL × entropy (see `objective.py`).

May import: configuration, engagement.
"""
