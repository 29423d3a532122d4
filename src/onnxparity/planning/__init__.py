"""What is tried: which subjects, at which shapes and regimes, by which runtimes; listed before anything runs."""
