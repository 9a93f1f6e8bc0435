"""Return whether two answers are equal: exactly where that can be decided, by computer algebra where not."""
