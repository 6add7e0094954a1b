"""`controller`: the distributors steer the handover. The earlier algorithm, by the steps of its paper, and mended.

It keeps all that `ordered` keeps, order included. Each unit is a distributor X of its own records, and a node: Y or Z,
which have state and give some, or U, which gets it. W u W' are the X (or the first N units, `Rules.distributors`).

1. INTENT comes to each X. It sends SHUTDOWN to the nodes that leave and SCALEUP to the others that give. Both
   may be in one rescale; F' is in the INTENT, for which a node waits, too. `steering.asking`
2. With SHUTDOWN or SCALEUP of every X, a node asks its operators which of the keys that it gives they have state of, and
   sends every X its sets: `hold`, the first N of those keys, and `whitelist`, the others. `node.asked`, `chain.sets`
3. An X goes by the sets of the node F(K). A record of a whitelisted key is sent there, one of a held key waits at the X,
   and any other goes to F'(K). `records.way`
4. The X sends the node FINAL of the held keys, behind all of their records. `steering`
5. With FINAL of every X, no record of these keys will come. The state is cut out; REDISTRIBUTE takes it to every X, with
   the next N keys. `node.finished`, `chain.through`
6. The X sends the state to F'(K), then the records that waited for it. It holds the next keys: 4. With as many empty
   `hold` as there are nodes, it goes by F' for good. `steering.redistributed`, `records.switched`

A node has operators, Z1 and Z2: FINAL, and then REDISTRIBUTE, pass through one after the other. The first that has
state of the key makes REDISTRIBUTE of FINAL, the later ones add theirs, and free slots for next keys are filled by
the first that has one left. `chain`

**The mends.** As written it breaks in 16 to 29 % of the rescales with one X, and in nearly all with several.

- a: a node may hear SHUTDOWN before INTENT; it counts. `handing.hear`
- b: until the sets are there, an X holds its records of all keys that the node gives. Otherwise one may begin a state that
  is in no set. Keys that do not move go on. `records.way`
- c: every X sends the state on, so that it is in front of its own records.
- d: the target installs the first copy that is whole, and no other. `handing`, `arrivals`
- e: the sets are the union over the operators of a node. `node`
- f: a FINAL of which no operator has state is answered; and where none names a next key, the node names one of those whose
  state has ended since step 2, which would stay whitelisted for ever. `node`
- g: moved means F(K) != F'(K), not F'(K) == U, and the sets of the node F(K) count. `records`
- h: an X that goes by F' for good says DONE to all that get state. A target cannot know which keys have any, and so when
  it has all copies; without it, it would acknowledge too early. `steering`, `handing`

A removed unit leaves on COMPLETE, not when its last REDISTRIBUTE is sent, for it is an X, too.

**Credit.** A held record is counted against what its X gives itself for direct ones, so a distributor that holds much
pauses its sources, for all keys.

**Event time** is the drained one: a watermark waits for records that are held. Units that leave are told none, and
those that join are told by each X what it said before. `event_time`

**Cost.** With |X| distributors, a node of k keys gets |X| SHUTDOWN and k / N times |X| FINAL, and sends |X| sets and
|X| copies of each state, each of which is sent once more: 2 |X| times the bytes of the state. A key waits for the slowest
distributor and the slowest node, but only while it is held, or until the sets are there. `ordered` sends each state
once, and nothing for each key but that; hence it is the default. What `controller` is better at: at any time N keys of a
node wait, and no record goes over the network twice.
"""
