"""Turn-taking, measured: labelled recordings, a room on simulated time, scores. See docs/turn-taking.md."""
