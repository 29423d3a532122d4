"""What goes in, and what is known to come out: inputs drawn or given, reference values, exact values."""
