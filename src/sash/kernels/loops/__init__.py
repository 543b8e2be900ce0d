"""Loops that drive structures over columns and live state, and the classes that run them."""
