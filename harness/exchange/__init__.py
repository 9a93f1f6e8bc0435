"""Other trainers: their names for our settings (dialects) and their logs in our store (importers).

May import: configuration, store.
"""
