"""A whole job in one process, with a seed in the place of time: what the protocols are proven with.

N units of any protocol, an ordered stream for each pair of them, a coordinator, source partitions. What happens next,
of all that could, is drawn by chance: a frame or an order arrives, a record is read, a state is cut out, a rescale is
asked for, a unit dies. Some streams and units are slow in each run. The seed and the options determine a run, to the
last byte of its trace.

`options`: what a run is like. `topology`: its mappings. `machine`: the protocols, and their variants. `world`: the
job, and the draw. `witness`: the invariants, from deliveries and effects alone. `run`: one seed, many seeds.
`shrink`: the shortest trace of a failure. `transcript`: events and effects in words.
"""
