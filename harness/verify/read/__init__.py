"""What an answer says: text made canonical, then numbers, sets, intervals, relations, formulas."""
