"""One file per question. Each prints its figures and writes them as JSON with the command, the commit and the machine."""
