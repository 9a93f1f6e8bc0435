"""Which prompts are rolled out, and which of their groups are trained on."""
