"""The live page: what is counted for it, what viewers are sent, and the one document that shows it."""
