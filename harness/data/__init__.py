"""Problems as data: where records come from, what repeats, what overlaps, which golds are unusable. Imports no torch."""
