"""An experiment out of the store: plan, states, scores of each seed at the declared checkpoint."""
