"""From observations to verdicts: the artifact and its runtimes against the reference, float64 and their properties."""
