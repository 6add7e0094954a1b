"""Moving a key's state to another unit while records flow.

**The problem.** Units hold state, each of the keys that a mapping gives it; distributors send a record to the owner of
its key. A new mapping moves some keys. If a distributor goes by the new one at once, its record arrives before the
state; if it goes by the old one for too long, the state has left. Nobody knows the time of anybody else, streams keep
order only by pairs, and nothing may stop. What must hold: no key has two owners; every record is applied once; records
of a key from one source partition are applied in its order; state meets no other state; every handover ends; memory is
bounded; event time waits for what is held.

**Words.** F and F', W and W': mapping and units before and after. A *moved* key has F(k) != F'(k): the old owner
*gives* it, the new one *receives* it. An *own* record was read at the unit, or made there by the region upstream. A
unit is *upgraded* when it has obeyed INTENT. Here, keys are vnodes: there are finitely many, and all are known.

**`ordered`.** The old owner alone puts the records of a moved key in order, until each distributor in turn has nothing
more to say to it.

1. A key with F(k) == F'(k) is not in the protocol. `ordered.records`
2. A distributor sends own records of a moved key to F(k) until it is upgraded and has seen Done(F(k)).
   `ordered.records.route`
3. The old owner applies what it still has, holds what is being collected, and forwards the rest to F'(k), behind the
   Acquire. Done says: everything moved is on its stream. `ordered.records`, `ordered.handing`
4. With Done(T) an upgraded unit X sends FLUSH to T, the last of its old traffic there, and goes direct. T relays it as
   FLUSHED(X) to its receivers, behind all that it forwarded, and not before its own Done. T is one of the X.
   `ordered.handing`
5. The new owner applies what came from F(k), and what came directly from X once FLUSHED(X) of F(k) was seen; it buffers
   the rest. So also its own records, and so before it is upgraded. `ordered.records`, `ordered.arrivals`
6. Acquire, Done, FLUSH, FLUSHED and forwarded records are accepted in any phase. `ordered.handing.hear`
7. A unit acknowledges when it has seen every Done, relayed every FLUSH, and seen all its FLUSHED. A removed unit leaves
   on COMPLETE, with no source left, and with all that it sent applied. `ordered.handing`, `step`
8. A new unit starts with the old mapping. `unit.started`, `coordinator`
9. A receiver never stops reading a stream. Own records go against credit of the unit that they are sent to, one for
   ordinary and one for direct ones; without it the *sources* pause. Credit comes back from whoever applied the record,
   so what is held, buffered, forwarded, on a stream, or not yet taken by the operators counts against its origin.
   `ledger`, `step`

Three things follow from credit that comes back at the end: a source partition may be read elsewhere, a unit may leave,
a snapshot may be taken, each as soon as nothing of theirs is outstanding. `sources`

Event time goes the way of the records: a watermark is about a source partition, follows rules 3 and 5 like a record
from there, and the keys that were given are behind the others of their unit while they must be. `clock`,
`ordered.event_time`

**Older versions.** Frames of versions *older* than a unit's own are taken: only givers get FLUSH, so
a frame to the owner of an unmoved key may be on its way when the version is complete. Its stream keeps it in order.

**Renumbering.** After an abort the published number is beyond n + 1. A version with the same owners may follow any
number: a unit takes it, and names its own on its frames until COMPLETE, so that nobody meets a number that it cannot
know. `step`

**Strangers.** What a unit may say of whom is checked, for all that comes: by version and digest in `announcement`, by
who gives and who receives in each protocol (`standing`). What is out of turn ends in a `HandoverError`, and the job
restarts.

**The modules.** `version`: mappings. `message`, `event`, `effect`: what units say, what happens to them, what they want
done. `errors`. `links`: numbered streams. `ledger`: credit. `clock`, `drained_time`: event time. `sources`. `unit`,
`step`: a unit, of which an engine calls `unit.started` and `step.step`; `protocol`, `phase`, `rules`, `outcome`: what
differs from one protocol to another, and what does not; `announcement`, `chunks`: what all have in common. `ordered`,
`icadd`, `controller`. `job` and `coordinator`: the other end; `pacing`: which keys move at the same time. `region`: the
operators behind a distributor. `ways`: rows by where `route` sends them; `wire`: frames as bytes. `simulator`: the
proof, as far as one can run it. Nothing here does I/O, reads a clock, or draws by chance; the simulator draws by a
seed.
"""
