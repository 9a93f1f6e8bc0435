"""Claims of the field: what the experiment that declares one says of it, as table, figure and pages."""
