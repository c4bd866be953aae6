"""What all folders use: checks of arguments, compiled code, files, optional dependencies."""
