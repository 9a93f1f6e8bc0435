"""Reading of answers: text made canonical, then numbers, sets, intervals, relations, formulas."""
