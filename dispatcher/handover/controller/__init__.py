"""`controller`: the distributors steer the handover. The earlier algorithm, by the steps of its paper, and mended.

It keeps all that `ordered` keeps, order included. Each unit is a distributor X of its own records, and a node: Y or Z,
which have state and give some, or U, which gets it. W u W' are the X (or the first N units, `Rules.distributors`).

1. INTENT comes to each X. It sends SHUTDOWN to the nodes that leave, and SCALEUP to the others that give; a rescale may
   have both. F' is in the INTENT, so a node waits for that, too. `steering.asking`
2. With SHUTDOWN or SCALEUP of every X, a node asks its operators which of the keys that it gives they have state of.
   Every X gets its sets: `hold`, the first N of those keys, and `whitelist`, the others. `node.asked`, `chain.sets`
3. An X goes by the sets of the node F(K). A record of a whitelisted key is sent there, one of a held key waits at the
   X, and any other goes to F'(K). `records.way`
4. The X sends the node FINAL of the held keys, behind all of their records. `steering`
5. With FINAL of every X, no record of these keys will come. Their state is cut out, and goes to every X: REDISTRIBUTE,
   with the next N keys. `node.finished`, `chain.through`
6. The X sends the state to F'(K), then the records that waited for it. It holds the next keys: 4. With as many empty
   `hold` as there are nodes, it goes by F' for good. `steering.redistributed`, `records.switched`

A node has operators, Z1 and Z2: FINAL, and then REDISTRIBUTE, pass through one after the other. The first that has
state of the key makes REDISTRIBUTE of FINAL, the later ones add theirs, and free slots for next keys are filled by
the first that has one left. `chain`

**The mends.** As written it breaks in a sixth of the runs or more with one X, and in nearly all with several.

- a: a node may hear SHUTDOWN before INTENT; it counts. `handing.hear`
- b: until the sets are there, an X holds its records of all keys that the node gives; otherwise one of them may begin a
  state that is in no set. Keys that do not move go on. `records.way`
- c: every X sends the state on, so that it is in front of its own records. `steering`
- d: the target installs the first copy that is whole, and no other. `handing`, `arrivals`
- e: the sets are the union over the operators of a node. `node`
- f: a FINAL of which no operator has state is answered. `node`
- g: moved means F(K) != F'(K), not F'(K) == U, and the sets of the node F(K) count. `records`
- h: an X that goes by F' for good says DONE to all that get state. A target does not know which keys have any, so it
  could not tell when it has all copies, and would acknowledge too early. `steering`, `handing`
- i: where no operator names a next key, the node names one whose state has ended since step 2. It would stay
  whitelisted, and its records would go to a node that has given all. `node`

A removed unit leaves on COMPLETE, not when its last REDISTRIBUTE is sent, for it is an X, too.

**Credit.** A held record is counted against what its X gives itself for direct ones. So a distributor that holds much
pauses its sources, for all keys.

**Event time** is the drained one: a watermark waits for records that are held. Units that leave are told none, and
those that join are told by each X what was said before. `event_time`

**Cost.** For k keys of a node and |X| distributors: |X| SHUTDOWN and sets, |X| FINAL for each N keys, and each state
2 |X| times, to every X and from there on. `ordered` sends a state once, and nothing else for a key; hence it is the
default. A key waits for the slowest distributor, while it is held, and until the sets are there. What is better here:
N keys of a node wait at a time, all others go on, and no record goes over the network twice.
"""
