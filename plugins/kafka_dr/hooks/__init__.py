"""One module or folder per outside system: its requests, answers and errors."""
