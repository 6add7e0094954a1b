"""A whole job in one process, with a seed in the place of time: what the protocols are proven with.

N units of any protocol, an ordered stream for each pair of them, a coordinator, source partitions. What happens next,
of all that could, is drawn by chance: a frame or an order arrives, a record is read, a state is cut out, a rescale is
asked for, a unit dies. Some streams and units are slow in each run. The seed and the options determine a run, to the
last byte of its trace.

`options`: what a run is like. `topology`: its mappings. `source`: what is read. `machine`: the protocols, and their
variants. `operators`: of each unit, a chain or a `dataflow`; `inside`: what is under way in that. `lanes`: what is
under way at all. `world`: the job. `draw`: what happens next.
`witness`: the invariants, from deliveries and effects alone. `run`: one seed, and the tally of many. `shrink`: the
shortest trace of a failure. `transcript`: all of it in words. `diagram`: as a picture.
"""
