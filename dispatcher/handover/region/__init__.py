"""Inside a unit: what a distributor and the operators of its region say to each other.

**The problem.** A protocol wants to know of which keys there is state, to cut a key's state out, to install it, to
have it forgotten. Behind the distributor are many operators, each with state of its own, and records on every edge
between them; records split, and unite. Nothing stops for a message: it goes where the records go, behind those before
it.

**Words.** A *region* is what is between a distributor, its *head*, and the next. An *edge* is a queue from one
operator to another, in order. A *first* copy of a message is the one that comes to an operator before its others.

1. A message goes into every edge of its head, and each copy on into every edge of the operator that it comes to. It is
   discarded where keys end: at the next distributor, or the keying operator before it. `passage`
2. Each copy of Interrogate adds the operator's keys to those that are known. `head`
3. For each copy of Collect, the operator's state replaces what it told before; so does that it has none. `head`
4. The first copy of Acquire gives the operator its state, and it alone. `passage`
5. The first copy of Drop has the operator forget, and it alone. `passage`
6. Each copy that has come is acknowledged, with the edges into which it was copied. A message is done when on each edge
   as many have come as were put there. `head`
7. An operator that makes records unasked, such as a reader or by a timer, makes none of a key from its first Collect on
   until Acquire or Drop. `passage.TellState`

**Why that is enough.** The last copy that comes to an operator has pushed every older record before it, on each way
that there is. So what it adds to the keys is complete, but for keys that the head has passed on since it asked, and it
knows those. What it tells of a collected key is final: the head holds that key's records. And behind Acquire, no
record comes to an operator by any way but behind a copy of it. First copies come in the order in which the head sent,
so an operator knows one by a number.

**Where the seed is mended.** It has rules 1, 2 and 4. Each of these was found as an order of events that loses state,
and is one in the tests:

- Of rule 3 it has states alone. A record on a long way may end a state of which a copy on a short way has told; then
  the state must be taken back, or it is alive again at the new owner.
- It has no rule 5. A key may leave and come back, and its Acquire be taken on a short way, while a copy of the earlier
  Drop is on a long one: that would forget the new state.
- It leaves rule 6 open. One count of all copies falls to nothing too early, where what an operator has said comes later
  than what those behind it have.
- It leaves rule 7 open. An offset that is read on after it was told is read twice.

**The cost.** An operator sees a message once for each way from the head to it, and n splits that unite again, one
behind the other, are 2 to the n ways.

**What an engine does.** It cuts its dataflow with `graph.regions`, which refuses what no protocol could move. It keeps
the edges, a `Head` for each region and a `Passage` for each operator and each end of a region. `effect.Collect`,
`Install` and `Drop` of the unit, and `Interrogate`, go to `head.step`; a copy at the front of an edge goes to
`passage.step`, and its effects are done before the operator takes anything else; answers go to `head.step`, those of
one operator in their order. `Collected` goes back to the unit.

`graph`: dataflows, regions. `message`: what is said. `payload`: the state of all operators as bytes. `errors`.
`rules`.
"""
