"""The simulator: the server's own session cores, scheduler and admission on virtual time, over modelled stages and networks.

What is real here and what is a model: `SessionCore`, `StageRunners` with their plans and policies, and `Admission` are the
production code. Stages are cost models (`profile`, `stages`, `engine`), and so are the way in and out (`network`, `egress`,
`listener`) and the people (`person`).
"""
