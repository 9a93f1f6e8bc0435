"""Tables as data, and the tables of an experiment."""
