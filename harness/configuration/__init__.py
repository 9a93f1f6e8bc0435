"""A run as data: the schema and its checks, composing YAML into it, identity, families of members.

May import: nothing of ours.
"""
