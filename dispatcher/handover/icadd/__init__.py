"""ICADD: interrogate, collect, acquire, drop, done. The seed's rules by their numbers, and what it takes to keep them.

**What it promises.** Of the invariants of handover.md all but the third: one owner; nothing lost, nothing doubled;
state meets no other state; it ends; memory is bounded; event time waits. Not order: a record that goes directly to the
new owner may overtake one that comes by way of the old one (C, D), and so may one that is bounced.

**Keys.** Vnodes, or keys of which nobody knows all: a key is whitelisted where its state was found, or a record of it
met. A key that is new in the world is met like one whose state is elsewhere: its old owner says that it has none.

**Interrogation**, from INTENT on, by F:

1.1 F(K) here, F'(K) elsewhere: whitelist K, pass the record downstream. `records.take`
1.2 F(K) and F'(K) here: pass. `records.heading`
2   F(K) elsewhere: send by F. `records.heading`

**Collection**, from the operators' answer on, with the next version's number: the unit is upgraded now.

1.1 K in the whitelist: pass. `records.heading`
1.2 K in hold, for its state is being cut out: keep the record. `records.take`
2   F'(K) elsewhere: send by F'. `records.heading`
3   F'(K) here: pass what comes from F(K), which has no state of it, or it would have kept the record; send all else
    to F(K). That breaks the first game of ping-pong. `records.heading`

The version rule breaks the second: a record of a higher version than one's own is passed downstream. `records.take`

**Moving state.** One key after another goes from the whitelist into hold, is collected, and goes as Acquire to F'(K);
behind it what was held; Drop. `handing`

**Finishing.** With both sets empty: Done to all. When all of W have said it, the rules are F' alone. `handing`

**Mends**, by the letters of handover.md; each can be left out (`rules`):

A   The version rule takes a record from F(K) alone; for others it is a record like any. `records.take`
B   What the version rule takes is whitelisted by 1.1, too. With A there is no such record: it is from F(K), so F(K) is
    not here. `records.take`
E   A removed unit relays on after Done of all, and leaves on COMPLETE. `handing`
F   A key that is acquired before Interrogation is not whitelisted: F'(K) is here. `handing`
G   A new unit goes by F, and from INTENT on by the rules of Collection. `handing`
H   A key with F(K) == F'(K) is not in the protocol: rule 3 would have its owner send it to itself. `records.heading`

**One more.** After all Done nothing is sent by the old rules, and still it may be under way: a record that was sent
directly by who has seen every Done is bounced by who has not, and the old owner may have left by then, or may be the
new owner in the next handover, which takes it by rule 3 and has no state. That its origin has its credit back for all
that it sent before says nothing of it. So each unit that has seen every Done says FLUSH to all, the last that it sent
by the old rules, and acknowledges when it has everyone's. `handing`

**Event time.** A watermark goes when everything older is applied, so it is true everywhere (`drained_time`). New units
are told what is known by each of W at its INTENT, and what is new from then on.

**Cost.** |W| x |W u W'| Done and |W u W'|^2 FLUSH; at most three hops for a record: to the new owner by F', back to the
old one by F, and to the new one again.
"""
