"""Leading a red cell back to the first node at fault: by value, never by name."""
