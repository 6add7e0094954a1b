"""Inside a unit: what a distributor and the operators of its region say to each other.

**The problem.** A protocol wants to know of which keys there is state, to cut a key's state out, to install it, to
have it forgotten. Behind the distributor are many operators, each with state of its own, and records on every edge
between them; records split, and unite. Nothing stops for a message: it goes where the records go, behind those before
it.

**Words.** A *region* is what is between a distributor, its *head*, and the next. An *edge* is a queue from one
operator to another, in order. A *first* copy of a message is the one that comes to an operator before its others.

1. A message goes into every edge of its head, and from each operator into every edge of that, once: Acquire and Drop
   with the first copy that comes there, Interrogate and Collect with the last. It is discarded where keys end: at the
   next distributor, or the keying operator before it. `passage`
2. Each copy of Interrogate adds the operator's keys to those that are known. `head`
3. For each copy of Collect, the operator's state replaces what it told before; so does that it has none. `head`
4. The first copy of Acquire gives the operator its state, and it alone. `passage`
5. The first copy of Drop has the operator forget, and it alone. `passage`
6. Each copy that has come is acknowledged, with the edges into which it was copied. A message is done when on each edge
   as many have come as were put there. `head`
7. An operator that makes records unasked, such as a reader or by a timer, makes none of a key from its first Collect on
   until Acquire or Drop. `passage.TellState`

**Why that is enough.** When the last copy of Interrogate or Collect has come to an operator, every older record has,
too, on each way that there is. So what it adds to the keys then is complete, but for keys that the head has passed on
since it asked, and it knows those. What it tells of a collected key is final: the head holds that key's records. And
since Acquire goes on with its first copy, no record that came behind it leaves an operator before it: each
finds its state.

**Where the seed is mended.** It has rules 2 and 4, and half of 1 and 3. But for the first, each of these is an
order of events in the tests that loses state, or doubles it:

- It copies on each copy that comes, so behind n splits that unite again, one behind the other, come 2 to the n copies.
  By rule 1 an edge has one.
- Of rule 3 it has states alone. A record on a long way may end a state of which a copy on a short way has told; then
  the state must be taken back, or it is alive again at the new owner.
- It has no rule 5. A key may leave and come back, and its Acquire be taken on a short way, while a copy of the earlier
  Drop is on a long one: that would forget the new state.
- It leaves rule 6 open. One count of all copies falls to nothing too early, where what an operator has said comes later
  than what those behind it have.
- It leaves rule 7 open. An offset that is read on after it was told is read twice.

**What an engine does.** It cuts its dataflow with `graph.regions`, which refuses what no protocol could move. It keeps
the edges, a `Head` for each region and a `Passage` for each operator and each end of a region. Records of
`effect.Apply` go on the edges; when every copy of them has come to its last operator, that is `Applied`, and so credit
bounds what is on the edges, too. Event time goes behind them, not for keys that are being collected.
`effect.Interrogate`, `Collect`, `Install` and `Drop` of the unit go to `head.step`; a copy at the front of an edge goes
to `passage.step`, and its effects are done before the operator takes anything else; answers go to `head.step`, those of
one operator in their order. `Interrogated` and `Collected` go back to the unit.

`graph`: dataflows, regions. `message`: what is said. `payload`: the state of all operators as bytes. `errors`.
`rules`.
"""
