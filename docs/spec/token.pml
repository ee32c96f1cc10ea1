// The token's protocol on three nodes: see token.md.
//
// Not modelled. Five nodes; four attempts, but for the entries that nodes begin with; a second raise, a third question;
// clocks of different speed; a majority that forgets within one guard, for which nothing is promised; tickets; the token
// and a half that a release leaves; counters instead of times (ADR 0004).
// run: as shipped | -DPROPOSALS=3 -DENTRIES=3 | holds in 25,000
// run: as shipped, raise to all | -DPROPOSALS=3 -DENTRIES=3 -DRAISE_ALL=1 | holds in 19,000
// run: three attempts | -DATTEMPTS=3 | holds in 420,000
// run: hand-over, repair | -DPROPOSALS=2 -DENTRIES=3 -DHAND_OVER=1 -DREPAIR=1 | holds in 34,000
// run: asks again | -DPROPOSALS=2 -DENTRIES=2 -DASKS_AGAIN=1 | holds in 43,000
// run: asks again, raise to all | -DPROPOSALS=2 -DASKS_AGAIN=1 -DRAISE_ALL=1 | holds in 29,000
// run: asks again, repair | -DASKS_AGAIN=1 -DREPAIR=1 | holds in 17,000
//
// Simpler protocols. To raise blindly does no harm as long as only nodes that have answered are told to: the raise goes
// above all they said, and nobody else accepts anything there before the key changes hands. It takes a straggler.
// run: V0 max only | -DPROPOSALS=2 -DFLAW=MAX_ONLY | breaks unique in 8
// run: V1 at least | -DPROPOSALS=2 -DFLAW=AT_LEAST | breaks unique in 8
// run: V2 raw raise | -DPROPOSALS=3 -DENTRIES=3 -DFLAW=RAW_RAISE | breaks grants in 11
// run: V3 blind OK | -DPROPOSALS=3 -DENTRIES=3 -DFLAW=BLIND_OK -DRAISE_ALL=1 | breaks unique in 12
// run: V3 blind OK, no straggler | -DPROPOSALS=3 -DENTRIES=3 -DFLAW=BLIND_OK | holds in 25,000
// run: A1 old copy counted | -DPROPOSALS=2 -DENTRIES=2 -DLOSSES=1 -DOLD_COPY=1 | breaks unique in 9
// run: A1 old copy abstains | -DPROPOSALS=2 -DENTRIES=2 -DLOSSES=1 -DOLD_COPY=1 -DGUARD=7 | holds in 21,000
// run: A2 raise recreates | -DHORIZON=1 -DLOSSES=1 -DGUARD=1 -DFLAW=RECREATE | breaks unique in 17
// run: client's clock | -DPROPOSALS=2 -DFLAW=CLIENT_CLOCK | breaks unique in 8
// run: client's clock, order | -DPROPOSALS=2 -DFLAW=CLIENT_CLOCK -DCHECKED=ORDER | breaks order in 8
// run: both rounds count | -DPROPOSALS=2 -DASKS_AGAIN=1 -DFLAW=BOTH_ROUNDS | breaks unique in 9
// run: the old token | -DPROPOSALS=2 -DASKS_AGAIN=1 -DFLAW=OLD_TOKEN | breaks grants in 11
// run: beyond validity | -DPROPOSALS=2 -DBEYOND=1 | breaks grants in 8
//
// With a clock: a guard longer than the disagreement, a retention as long as that and an attempt's life together.
// run: D=0 G=1 | -DHORIZON=2 -DLOSSES=1 -DGUARD=1 | holds in 31,000
// run: D=0 G=0 | -DHORIZON=2 -DLOSSES=1 | breaks unique in 9
// run: D=1 G=2 | -DHORIZON=3 -DSKEW=1 -DLOSSES=1 -DGUARD=2 | holds in 125,000
// run: D=1 G=1 | -DHORIZON=3 -DSKEW=1 -DLOSSES=1 -DGUARD=1 | breaks unique in 10
// run: D=2 G=2 | -DHORIZON=3 -DSKEW=2 -DLOSSES=1 -DGUARD=2 | breaks unique in 11
// run: D=1 G=2, loss unnoticed | -DHORIZON=3 -DSKEW=1 -DLOSSES=1 -DGUARD=2 -DSILENT=1 | breaks unique in 9
// run: D=0 G=1, asks again | -DHORIZON=1 -DLOSSES=1 -DGUARD=1 -DASKS_AGAIN=1 | holds in 260,000
// run: D=0 G=1, asks again, stale | -DHORIZON=2 -DLOSSES=1 -DGUARD=1 -DASKS_AGAIN=1 -DFLAW=STALE_AGAIN | breaks grants in 13
// run: D=1 L=1 R=2 | -DHORIZON=4 -DSKEW=1 -DRETENTION=2 -DLIFETIME=1 | holds in 120,000
// run: D=1 L=1 R=1 | -DHORIZON=4 -DSKEW=1 -DRETENTION=1 -DLIFETIME=1 | breaks unique in 10
// run: D=1 L=2 R=2 | -DHORIZON=4 -DSKEW=1 -DRETENTION=2 -DLIFETIME=2 | breaks unique in 11
// run: D=0 L=2 R=2, raise to all | -DHORIZON=4 -DRETENTION=2 -DLIFETIME=2 -DRAISE_ALL=1 | holds in 36,000
// run: an attempt without end | -DHORIZON=4 -DSKEW=1 -DRETENTION=3 | breaks unique in 12
//
// deep: as shipped, three attempts | -DATTEMPTS=3 -DPROPOSALS=3 | holds in 3,000,000
// deep: raise to all, three attempts | -DATTEMPTS=3 -DPROPOSALS=3 -DRAISE_ALL=1 | holds in 1,900,000
// deep: hand-over, repair, three attempts | -DATTEMPTS=3 -DPROPOSALS=2 -DHAND_OVER=1 -DREPAIR=1 | holds in 4,500,000
// deep: asks again, three attempts | -DATTEMPTS=3 -DASKS_AGAIN=1 | holds in 14,000,000
// deep: three attempts, a loss | -DATTEMPTS=3 -DHORIZON=2 -DLOSSES=1 -DGUARD=1 | holds in 15,000,000
// deep: D=0 G=1, asks again, longer | -DHORIZON=2 -DLOSSES=1 -DGUARD=1 -DASKS_AGAIN=1 | holds in 860,000
// deep: D=1 G=2, asks again | -DHORIZON=3 -DSKEW=1 -DLOSSES=1 -DGUARD=2 -DASKS_AGAIN=1 | holds in 6,600,000
// deep: D=2 G=3, two losses | -DHORIZON=5 -DSKEW=2 -DLOSSES=2 -DGUARD=3 | holds in 1,100,000
// deep: two losses, trimming, repair | -DHORIZON=5 -DSKEW=1 -DLIFETIME=2 -DLOSSES=2 -DGUARD=2 -DRETENTION=3 -DREPAIR=1 | holds in 4,700,000
// deep: D=1 L=2 R=3 | -DHORIZON=4 -DSKEW=1 -DRETENTION=3 -DLIFETIME=2 | holds in 79,000
//
// What is left out changes no verdict.
// deep: all steps | -DPROPOSALS=2 -DENTRIES=2 -DALL_STEPS=1 | holds in 67,000
// deep: all steps, hand-over, repair | -DHAND_OVER=1 -DREPAIR=1 -DALL_STEPS=1 | holds in 15,000
// deep: all steps, asks again | -DASKS_AGAIN=1 -DALL_STEPS=1 | holds in 130,000
// deep: all steps, D=0 G=1 | -DHORIZON=2 -DLOSSES=1 -DGUARD=1 -DALL_STEPS=1 | holds in 230,000
// deep: all steps, D=1 L=1 R=2 | -DHORIZON=3 -DSKEW=1 -DRETENTION=2 -DLIFETIME=1 -DALL_STEPS=1 | holds in 690,000
// deep: all steps, V0 | -DPROPOSALS=2 -DFLAW=MAX_ONLY -DALL_STEPS=1 | breaks unique in 10
// deep: all steps, V3 | -DPROPOSALS=3 -DENTRIES=3 -DFLAW=BLIND_OK -DRAISE_ALL=1 -DALL_STEPS=1 | breaks unique in 14
// deep: nodes told apart, D=1 L=1 R=2 | -DHORIZON=3 -DSKEW=1 -DRETENTION=2 -DLIFETIME=1 -DUNSORTED=1 | holds in 310,000

#include "node.pml"

// Simpler protocols, each of which is broken.
#define MAX_ONLY 1	// V0: the largest token of a majority counts, without a second round
#define AT_LEAST 2	// V1: a node that knows the token, or a larger one, counts as having accepted it
#define RAW_RAISE 3	// V2: a raise is obeyed whosever the lock is
#define BLIND_OK 4	// V3: a raise counts if the lock is the client's, whatever token the node knows
#define RECREATE 5	// A2: a raise takes the lock where it is gone
#define BOTH_ROUNDS 6	// acceptance of the first question's token counts for the second one's
#define OLD_TOKEN 7	// the second question has the first one's token, and to know it counts as acceptance
#define STALE_AGAIN 8	// the second question's token is one more than the first one's, whatever the time is
#define CLIENT_CLOCK 9	// nodes keep no tokens: the clients' clocks are all
#ifndef FLAW
#define FLAW 0
#endif

#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef ENTRIES	// a node may know 0 to ENTRIES - 1 to begin with
#define ENTRIES 1
#endif
#ifndef HORIZON	// Without a clock (0), an attempt may propose any token in 1..PROPOSALS. With one, time goes from 0 to
#define HORIZON 0	// HORIZON, and an attempt proposes the time plus up to SKEW ticks: clocks disagree by so much.
#endif
#ifndef PROPOSALS
#define PROPOSALS 1
#endif
#ifndef SKEW
#define SKEW 0
#endif
#ifndef LIFETIME	// an attempt that is older decides nothing any more; 0: there is no such limit
#define LIFETIME 0
#endif
#ifndef LOSSES	// how often a node may restart without its data, or with a copy whose entry is OLD_COPY
#define LOSSES 0
#endif
#ifndef OLD_COPY
#define OLD_COPY 0
#endif
#ifndef GUARD	// for how many ticks a node's votes abstain after that
#define GUARD 0
#endif
#ifndef SILENT	// a loss leaves the connections alone, as FLUSHALL does: nobody notices, nobody abstains
#define SILENT 0
#endif
#ifndef RETENTION	// a node may drop an entry that is older, by the fastest of the clocks; 0: it drops none
#define RETENTION 0
#endif
#ifndef RAISE_ALL	// the raise goes to nodes that have not answered the acquire, too, where it queues behind that
#define RAISE_ALL 0
#endif
#ifndef ASKS_AGAIN	// an attempt may ask every node once more, with a larger token, at any moment before it decides
#define ASKS_AGAIN 0
#endif
#ifndef HAND_OVER	// a release may give the lock to a waiter, under whose owner an attempt is to come or on its way
#define HAND_OVER 0
#endif
#ifndef REPAIR	// a holder may set its key again where it is gone
#define REPAIR 0
#endif
#ifndef BEYOND	// property 3 is demanded of holders, too, whose keys are gone when they win
#define BEYOND 0
#endif
#define UNIQUE 1
#define ORDER 2
#define GRANTS 4
#ifndef CHECKED	// which properties
#define CHECKED (UNIQUE + ORDER + GRANTS)
#endif
#ifndef ALL_STEPS	// take the steps that are left out otherwise, too
#define ALL_STEPS 0
#endif

// How far an attempt has come.
#define IDLE 0
#define ACQUIRING 1	// its question is out to every node
#define RAISING 2	// its second round is out
#define WON 3
#define LOST 4	// it will not win; only what is on the wire matters

// What is between an attempt and a node: a command on the wire, or what came of it. An answer is never delivered in a
// step of its own. Where an attempt decides, it has heard any of the answers given so far; the others are late or lost.
// A lost command is one that is never executed, and a client that pauses or crashes takes no step.
#define UNSENT 0
#define ASKED 1	// the acquire is on the wire
#define ASKED_UNCOUNTED 2	// the same, to a node that abstains: it is obeyed, not counted
#define ASKED_AGAIN 3	// the second question is on the wire, and nothing before it
#define ASKED_AGAIN_UNCOUNTED 4
#define RAISE_SENT 5
#define ACCEPTED 6	// answered: the lock is given, the token accepted
#define OUTBID 7	// answered: the lock is given, but a token as large is known
#define RAISED 8	// answered: exactly the attempt's token accepted
#define OVER 9	// refused, abstained, ended with the connection, or no longer of interest

typedef Wire {
	byte at;
	TOKEN value;	// of a question: the token that it proposes; of an answer: the one that the node knows
};
typedef Link {
	Wire to[ATTEMPTS];
	byte since;	// the node's votes abstain until this tick
};
typedef Attempt {
	byte phase;
	TOKEN token;	// what it proposes now; once it has won, its token
	byte start;	// the tick at which it began
	byte before;	// those that had won before it began: a bit for each attempt
	bool again;	// it has asked a second time: a question that was on the wire then has the second behind it
};
Link link[NODES];
Attempt attempt[ATTEMPTS];
byte begun;
byte now;
byte losses;
byte i, k, set, count;	// of no meaning between steps, as is swap
int swap;

#define AT(n, a) link[n].to[a].at
#define VALUE(n, a) link[n].to[a].value
#define OWN(a) (a + 1)
#define ABSTAINS(n) (now < link[n].since)
#define ON_WIRE(n, a) (AT(n, a) >= ASKED && AT(n, a) <= RAISE_SENT)
#define GAVE(n, a) (AT(n, a) == ACCEPTED || AT(n, a) == OUTBID)

// Is the answer a vote for the attempt's token? Only if the node gave the lock and accepted exactly that token.
#if FLAW == AT_LEAST
#define VOTE(n, a) (GAVE(n, a) && VALUE(n, a) >= attempt[a].token)
#elif FLAW == OLD_TOKEN
#define VOTE(n, a) (GAVE(n, a) && VALUE(n, a) >= attempt[a].token && (AT(n, a) == ACCEPTED || attempt[a].again))
#elif FLAW == BOTH_ROUNDS
#define VOTE(n, a) (AT(n, a) == ACCEPTED)
#else
#define VOTE(n, a) (AT(n, a) == ACCEPTED && VALUE(n, a) == attempt[a].token)
#endif
#define VOTED(n, a) (AT(n, a) == RAISED || VOTE(n, a))

// A set of nodes is a number with a bit for each.
#define IN(set, n) (((set) >> (n)) & 1)
#define VOTES(set, a) (IN(set, 0) * VOTED(0, a) + IN(set, 1) * VOTED(1, a) + IN(set, 2) * VOTED(2, a))
#define ANSWERED(n, a) (AT(n, a) >= ACCEPTED && AT(n, a) <= RAISED)
#define HEARD(set, a) (IN(set, 0) <= ANSWERED(0, a) && IN(set, 1) <= ANSWERED(1, a) && IN(set, 2) <= ANSWERED(2, a))

// Ticks are apart by more tokens than a run has raises, so that no raise overtakes the clock. On real nodes it is the
// same: a token is a microsecond, and a raise takes a round trip.
#define PER_TICK 4
#if HORIZON
#define CHOICES (SKEW + 1)
#define PROPOSED(f) ((now + 1 + f) * PER_TICK)
#else
#define CHOICES PROPOSALS
#define PROPOSED(f) (f + 1)
#endif

// The protocol treats the nodes alike, so that states that differ only in their order are one: each step sorts them. A
// replay with -DREPLAY remembers their names.
#define KEY(n) ((((node[n].owner << 8 | node[n].entry) << 4 | link[n].since) << 4 | AT(n, 0)) << 6 | VALUE(n, 0))
#if ATTEMPTS == 3
#define KEY2(n) (((AT(n, 1) << 6 | VALUE(n, 1)) << 4 | AT(n, 2)) << 6 | VALUE(n, 2))
#else
#define KEY2(n) (AT(n, 1) << 6 | VALUE(n, 1))
#endif
byte names;
#ifdef REPLAY
#define ABC 36	// 0, 1 and 2, in two bits each
#define DIFFERENCE(n, m) (((names >> (2 * n)) ^ (names >> (2 * m))) & 3)
#define EXCHANGED(n, m) (names ^ (DIFFERENCE(n, m) << (2 * n)) ^ (DIFFERENCE(n, m) << (2 * m)))
#else
#define ABC 0
#define EXCHANGED(n, m) 0
#endif
#define NAME(n) ('a' + ((names >> (2 * (n))) & 3))

inline exchange(x, y) { swap = x; x = y; y = swap }

inline in_order(n, m) {
	if
	:: KEY(n) > KEY(m) || KEY(n) == KEY(m) && KEY2(n) > KEY2(m) ->
		exchange(node[n].owner, node[m].owner);
		exchange(node[n].entry, node[m].entry);
		exchange(link[n].since, link[m].since);
		exchange(AT(n, 0), AT(m, 0)); exchange(VALUE(n, 0), VALUE(m, 0));
		exchange(AT(n, 1), AT(m, 1)); exchange(VALUE(n, 1), VALUE(m, 1));
#if ATTEMPTS == 3
		exchange(AT(n, 2), AT(m, 2)); exchange(VALUE(n, 2), VALUE(m, 2));
#endif
		names = EXCHANGED(n, m)
	:: else
	fi
}

// Each step ends so.
inline settle() {
#ifndef UNSORTED
	in_order(0, 1);
	in_order(1, 2);
	in_order(0, 1);
#endif
	heard();
	i = 0; k = 0; set = 0; count = 0; swap = 0
}

inline becomes(n, a, state, number) {
	AT(n, a) = state;
	VALUE(n, a) = number
}

// An attempt ends, and what cannot matter any more is dropped. What is on the wire does: it may still be executed.
inline finish(a, end) {
	set = 0;
	for (k : 0 .. NODES - 1) {
		if
		:: !ON_WIRE(k, a) -> becomes(k, a, OVER, 0)
		:: AT(k, a) == RAISE_SENT -> set = set | 1
		:: AT(k, a) == ASKED || AT(k, a) == ASKED_UNCOUNTED -> set = set | 2
		:: else
		fi
	}
	attempt[a].phase = end;
	attempt[a].start = 0;
	attempt[a].before = 0;
	attempt[a].again = attempt[a].again && IN(set, 1);
	if :: end == LOST && !IN(set, 0) && !attempt[a].again -> attempt[a].token = 0 :: else fi
}

// An attempt that cannot reach a majority any more is lost. One that may still ask every node again can.
#define HOPE(n, a) (AT(n, a) >= RAISE_SENT && AT(n, a) <= RAISED || \
	(AT(n, a) == ASKED || AT(n, a) == ASKED_AGAIN) && (attempt[a].phase == ACQUIRING || RAISE_ALL))
#define UNDECIDED(a) (attempt[a].phase == RAISING || attempt[a].phase == ACQUIRING && (!ASKS_AGAIN || attempt[a].again))

inline give_up_if_hopeless(a) {
	if
	:: attempt[a].phase == LOST || UNDECIDED(a) && HOPE(0, a) + HOPE(1, a) + HOPE(2, a) < MAJORITY -> finish(a, LOST)
	:: else
	fi
}

inline begins(a, f) {
	begun == a;	// the attempts are alike: they begin in order
	begun++;
	attempt[a].phase = ACQUIRING;
	attempt[a].token = PROPOSED(f);
	if :: LIFETIME -> attempt[a].start = now :: else fi;	// else nobody asks for it
	for (i : 0 .. ATTEMPTS - 1) { attempt[a].before = attempt[a].before | ((attempt[i].phase == WON) << i) }
	if
	:: a == 0 && ENTRIES > 1 -> printf("the nodes know %d, %d and %d: ", node[0].entry, node[1].entry, node[2].entry)
	:: else
	fi;
	// Whether a vote abstains is settled before the token is drawn: a node that restarts later ends the connection.
	for (i : 0 .. NODES - 1) { becomes(i, a, (ABSTAINS(i) -> ASKED_UNCOUNTED : ASKED), attempt[a].token) }
	printf("client %d asks every node, and proposes %d\n", a + 1, attempt[a].token);
	settle()
}

#if FLAW == OLD_TOKEN
#define MAY_PROPOSE_AGAIN(a, f) (f == 0)
#define PROPOSED_AGAIN(a, f) attempt[a].token
#elif !HORIZON || FLAW == STALE_AGAIN
#define MAY_PROPOSE_AGAIN(a, f) (f == 0 || attempt[a].token + 1 + f <= PROPOSALS)
#define PROPOSED_AGAIN(a, f) attempt[a].token + 1 + f
#else
#define MAY_PROPOSE_AGAIN(a, f) true
#define PROPOSED_AGAIN(a, f) (PROPOSED(f) > attempt[a].token -> PROPOSED(f) : attempt[a].token + 1)
#endif

// The second question goes to every node, under the same owner. Answers to the first no longer count.
inline asks_again(a, f) {
	attempt[a].phase == ACQUIRING && !attempt[a].again && MAY_PROPOSE_AGAIN(a, f);
	attempt[a].again = true;
	attempt[a].token = PROPOSED_AGAIN(a, f);
	for (i : 0 .. NODES - 1) {
		if
		:: ON_WIRE(i, a) -> AT(i, a) = (ABSTAINS(i) -> ASKED_UNCOUNTED : ASKED)
		:: FLAW == BOTH_ROUNDS && AT(i, a) == ACCEPTED
		:: else -> becomes(i, a, (ABSTAINS(i) -> ASKED_AGAIN_UNCOUNTED : ASKED_AGAIN), attempt[a].token)
		fi
	}
	printf("client %d asks every node again, and proposes %d\n", a + 1, attempt[a].token);
	settle()
}

// The nodes in set have voted for the attempt: it holds the lock. Is every property true of it and those before it?
inline wins(a) {
	printf(" and holds the lock, with token %d\n", attempt[a].token);
	count = BEYOND * NODES;
	for (i : 0 .. NODES - 1) { count = count + (IN(set, i) && node[i].owner == OWN(a)) }
	swap = attempt[a].before;
	finish(a, WON);
	for (i : 0 .. ATTEMPTS - 1) {
		if
		:: i == a || attempt[i].phase != WON || attempt[i].token < attempt[a].token
		:: else ->
			if
			:: (CHECKED & UNIQUE) && attempt[i].token == attempt[a].token ->
				printf("broken: unique: clients %d and %d both have token %d\n", i + 1, a + 1, attempt[a].token);
				assert(false)
			:: (CHECKED & ORDER) && attempt[i].token > attempt[a].token && IN(swap, i) ->
				printf("broken: order: client %d began after client %d had won with %d\n", a + 1, i + 1, attempt[i].token);
				assert(false)
			:: (CHECKED & GRANTS) && attempt[i].token > attempt[a].token && !IN(swap, i) && count >= MAJORITY ->
				printf("broken: grants: client %d won with %d after client %d with %d\n", a + 1, attempt[a].token, i + 1,
					attempt[i].token);
				assert(false)
			:: else
			fi
		fi
	}
}

// A client takes stock of the answers of the nodes in from.
inline decides(a, from) {
	(attempt[a].phase == ACQUIRING || attempt[a].phase == RAISING && VOTES(from, a) >= MAJORITY) && HEARD(from, a) &&
		(!LIFETIME || now <= attempt[a].start + LIFETIME);
	printf("client %d has heard", a + 1);
	swap = attempt[a].token;
	for (i : 0 .. NODES - 1) {
		if :: IN(from, i) -> printf(" %c", NAME(i)); set = set | (VOTED(i, a) << i) :: else fi;
		if :: IN(from, i) && AT(i, a) == OUTBID && VALUE(i, a) > swap -> swap = VALUE(i, a) :: else fi
	}
	if
	:: VOTES(from, a) >= MAJORITY -> wins(a)
	:: else ->
		attempt[a].token = swap + 1;
		if
		:: FLAW == MAX_ONLY -> set = from; wins(a)
		:: else ->
			printf(", which have not all accepted its token, and raises to %d\n", attempt[a].token);
			attempt[a].phase = RAISING;
			for (i : 0 .. NODES - 1) {
				if
				:: !GAVE(i, a) || VOTE(i, a)	// a raise to all queues behind the acquire: see answer
				:: else ->
					if
					:: (IN(from, i) || RAISE_ALL) && !ABSTAINS(i) -> becomes(i, a, RAISE_SENT, 0)
					:: else -> becomes(i, a, OVER, 0)
					fi
				fi
			}
			give_up_if_hopeless(a)
		fi
	fi;
	settle()
}

proctype Client(byte a) {
	do
	:: d_step { begins(a, 0) }
	:: d_step { decides(a, 3) }
	:: d_step { decides(a, 5) }
	:: d_step { decides(a, 6) }
	:: d_step { decides(a, 7) }
#if CHOICES > 1
	:: d_step { begins(a, 1) }
#endif
#if CHOICES > 2
	:: d_step { begins(a, 2) }
#endif
#if ASKS_AGAIN
	:: d_step { asks_again(a, 0) }
#if CHOICES > 1
	:: d_step { asks_again(a, 1) }
#endif
#if CHOICES > 2
	:: d_step { asks_again(a, 2) }
#endif
#endif
	od
}

// A command may stay on the wire for ever, so those that would change nothing on the node and earn no vote stay there:
// whatever follows their execution can follow without it. So does whatever follows when a key expires or is released by
// itself, since that only takes possibilities away: it is enough that it goes when another owner's acquire comes.
#define ACQUIRES(n, a) (AT(n, a) >= ASKED && AT(n, a) <= ASKED_AGAIN_UNCOUNTED)
#define GOES_ON(n, a) (attempt[a].again && (AT(n, a) == ASKED || AT(n, a) == ASKED_UNCOUNTED))
#define COUNTS(n, a) (AT(n, a) == (attempt[a].again -> ASKED_AGAIN : ASKED))
#define AWAITED(a) (attempt[a].phase == ACQUIRING || \
	attempt[a].phase == RAISING && (RAISE_ALL || FLAW == AT_LEAST || FLAW == OLD_TOKEN))
#define SERVES(n, a) (ALL_STEPS || node[n].owner != OWN(a) || PROPOSAL(n, a) > node[n].entry || \
	GOES_ON(n, a) || COUNTS(n, a) && AWAITED(a))
#if FLAW == CLIENT_CLOCK
#define PROPOSAL(n, a) 0
#define TOLD(n, a) VALUE(n, a)
#else
#define PROPOSAL(n, a) VALUE(n, a)
#define TOLD(n, a) known
#endif

// The next on the wire, after a question that earned no vote: the second one, if it stands behind it.
inline next(n, a) {
	if
	:: GOES_ON(n, a) -> becomes(n, a, (AT(n, a) == ASKED -> ASKED_AGAIN : ASKED_AGAIN_UNCOUNTED), attempt[a].token)
	:: else -> becomes(n, a, OVER, 0)
	fi
}

inline executes_acquire(n, a) {
	ACQUIRES(n, a) && SERVES(n, a);
	printf("node %c", NAME(n));
	if
	:: !ALL_STEPS && node[n].owner != NOBODY && node[n].owner != OWN(a) ->
		printf(", where client %d's key has gone,", node[n].owner);
		goes(n)
	:: else
	fi;
	confirm(n, OWN(a), PROPOSAL(n, a));	// an acquire, unless it asks again or the lock was handed over to it
	if
	:: !given -> printf(" refuses client %d the lock\n", a + 1)
	:: given && accepted -> printf(" gives client %d the lock and accepts %d\n", a + 1, VALUE(n, a))
	:: else -> printf(" gives client %d the lock, but knows %d\n", a + 1, known)
	fi;
	if
	:: !given || !COUNTS(n, a) -> next(n, a)
	:: else ->
		becomes(n, a, (accepted -> ACCEPTED : OUTBID), TOLD(n, a));
		// An answer that comes when the second round is out cannot serve the first; the raise behind it may be of use.
		if
		:: attempt[a].phase == ACQUIRING || attempt[a].phase == RAISING && VOTE(n, a)
		:: else -> becomes(n, a, (attempt[a].phase == RAISING && RAISE_ALL -> RAISE_SENT : OVER), 0)
		fi
	fi;
	give_up_if_hopeless(a);
	settle()
}

#define ANY_RAISE (FLAW == AT_LEAST || FLAW == BLIND_OK)	// counts, if the lock is the client's
#if FLAW == RAW_RAISE
#define RAISER(n, a) node[n].owner
#else
#define RAISER(n, a) OWN(a)
#endif
#define RAISE_SERVES(n, a) (ALL_STEPS || FLAW == RECREATE && node[n].owner != OWN(a) || \
	node[n].owner == RAISER(n, a) && (attempt[a].token > node[n].entry || ANY_RAISE))

inline executes_raise(n, a) {
	AT(n, a) == RAISE_SENT && RAISE_SERVES(n, a);
	if
	:: FLAW == RECREATE && (!ALL_STEPS || node[n].owner == NOBODY) -> node[n].owner = OWN(a)
	:: else
	fi;
	raise(n, RAISER(n, a), attempt[a].token);
	printf("node %c, ", NAME(n));
	if
	:: accepted -> printf("told to raise, accepts client %d's %d\n", a + 1, known)
	:: else -> printf("told to raise, knows %d\n", known)
	fi;
	becomes(n, a, (accepted || given && ANY_RAISE -> RAISED : OVER), 0);
	give_up_if_hopeless(a);
	settle()
}

// A release hands the lock over, and the token of the waiter's place is proposed. If the message that says so gets
// through, this is an acquire like any other. Here it is lost, and the waiter asks under the owner that has the lock,
// with the same token or, in an attempt that is yet to begin, with another.
#define HANDED_OVER(n, a) (node[n].owner != NOBODY && node[n].owner != OWN(a) && \
	attempt[node[n].owner - 1].phase >= WON)

inline hands_over(n, a, number) {
	hand_over(n, node[n].owner, OWN(a), number);
	printf("node %c hands client %d's lock over to client %d and knows %d\n", NAME(n), holder, a + 1, known);
	settle()
}

inline repairs(n, a) {
	attempt[a].phase == WON && node[n].owner != OWN(a) && node[n].entry <= attempt[a].token &&
		(!ALL_STEPS || node[n].owner == NOBODY);
	goes(n);
	extend(n, OWN(a), attempt[a].token);
	printf("node %c sets the key of client %d again\n", NAME(n), a + 1);
	settle()
}

// The connection between an attempt and a node: what the node executes there.
proctype Connection(byte n, a) {
	do
	:: d_step { executes_acquire(n, a) }
	:: d_step { executes_raise(n, a) }
#if REPAIR
	:: d_step { repairs(n, a) }
#endif
#if HAND_OVER
	:: d_step {
		HANDED_OVER(n, a) && AT(n, a) == ASKED && !attempt[a].again && attempt[a].phase < WON;
		hands_over(n, a, VALUE(n, a))
	}
	:: d_step { HANDED_OVER(n, a) && begun <= a; hands_over(n, a, PROPOSED(0)) }
#if CHOICES > 1
	:: d_step { HANDED_OVER(n, a) && begun <= a; hands_over(n, a, PROPOSED(1)) }
#endif
#endif
	od
}

// While one node abstains no other forgets: two that forget within one guard period are a majority, and nothing is
// promised then.
inline forgets(n) {
	losses < LOSSES && !ABSTAINS((n + 1) % NODES) && !ABSTAINS((n + 2) % NODES);
	losses++;
	lose(n, OLD_COPY);
	printf("node %c loses its data\n", NAME(n));
	if
	:: SILENT
	:: else ->
		for (i : 0 .. ATTEMPTS - 1) {
			if :: ON_WIRE(n, i) -> becomes(n, i, OVER, 0); give_up_if_hopeless(i) :: else fi
		}
		link[n].since = (GUARD -> now + GUARD : 0)
	fi;
	settle()
}

#define OLDEST ((now + 1 + SKEW - RETENTION) * PER_TICK)
inline trims(n) {
	node[n].entry > 0 && node[n].entry < OLDEST;
	printf("node %c drops its %d\n", NAME(n), node[n].entry);
	trim(n, OLDEST);
	settle()
}

inline expires(n) {
	node[n].owner != NOBODY;
	printf("client %d's key on node %c goes\n", node[n].owner, NAME(n));
	goes(n);
	settle()
}

proctype Master(byte n) {
	do
#if LOSSES
	:: d_step { forgets(n) }
#endif
#if RETENTION
	:: d_step { trims(n) }
#endif
#if ALL_STEPS
	:: d_step { expires(n) }
#endif
	:: false
	od
}

proctype Clock() {
	do
	:: d_step {
		now < HORIZON;
		now++;
		printf("it is %d\n", now);
		for (i : 0 .. NODES - 1) { if :: ABSTAINS(i) :: else -> link[i].since = 0 fi };
		settle()
	}
	od
}

inline knows(n) {
	if
	:: node[n].entry = 0
#if ENTRIES > 1
	:: node[n].entry = 1
#endif
#if ENTRIES > 2
	:: node[n].entry = 2
#endif
	fi
}

init {
	atomic {
		knows(0); knows(1); knows(2);
		d_step { settle(); names = ABC }
#if HORIZON
		run Clock();
#endif
#if LOSSES || RETENTION || ALL_STEPS
		run Master(2); run Master(1); run Master(0);
#endif
		for (i : 1 .. ATTEMPTS) {	// the last ones first: so traces begin with client 1 and node a
			run Connection(2, ATTEMPTS - i); run Connection(1, ATTEMPTS - i); run Connection(0, ATTEMPTS - i);
			run Client(ATTEMPTS - i)
		}
		i = 0
	}
}
