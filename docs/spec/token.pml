// The token's protocol on three nodes: see token.md.

#include "node.pml"

#define MAX_ONLY 1	// V0: the largest token of a majority counts, without a second round
#define AT_LEAST 2	// V1: a node that knows the token, or a larger one, counts as having accepted it
#define RAW_RAISE 3	// V2: the node does not check whose the lock is before it raises
#define BLIND_OK 4	// V3: the raise answers OK, whatever the node knows
#define RECREATE 5	// A2: a raise takes the lock again where it is gone
#define BOTH_ROUNDS 6	// acceptance of the first question's token counts for the second one's
#define OLD_TOKEN 7	// the second question has the first one's token, and to know it counts as acceptance
#define STALE_AGAIN 8	// the second question's token is larger than the first one's, whatever the time is
#define CLIENT_CLOCK 9	// the nodes keep no tokens: the client's clock is all

#ifndef FLAW
#define FLAW 0
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2
#endif
#ifndef PROPOSALS
#define PROPOSALS 1
#endif
#ifndef ENTRIES
#define ENTRIES 1
#endif
#ifndef HORIZON
#define HORIZON 0
#endif
#ifndef SKEW
#define SKEW 0
#endif
#ifndef LIFETIME
#define LIFETIME 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef GUARD
#define GUARD 0
#endif
#ifndef FORGET_TO
#define FORGET_TO 0
#endif
#ifndef SILENT
#define SILENT 0
#endif
#ifndef RETENTION
#define RETENTION 0
#endif
#ifndef RAISE_ALL
#define RAISE_ALL 0
#endif
#ifndef ASKS_AGAIN
#define ASKS_AGAIN 0
#endif
#ifndef HAND_OVER
#define HAND_OVER 0
#endif
#ifndef REPAIR
#define REPAIR 0
#endif
#ifndef BEYOND
#define BEYOND 0
#endif
#ifndef COUNTER
#define COUNTER 0
#endif
#ifndef UNREDUCED
#define UNREDUCED 0
#endif

// How far an attempt has come.
#define IDLE 0
#define ACQUIRING 1	// the proposal is out to every node
#define RAISING 2	// the second round is out
#define WON 3
#define LOST 4	// it will not win; only what is on the wire matters

// The connection between an attempt and a node: what is on the wire, or what came of it.
#define UNSENT 0
#define ASKED 1	// the acquire is on the wire
#define ASKED_NO_VOTE 2	// the same, to a node that abstains: it is obeyed, not counted
#define ASKED_AGAIN 3	// the second question is on the wire, with nothing before it
#define ASKED_AGAIN_NO_VOTE 4
#define RAISE_ASKED 5
#define ACCEPTED 6	// answered: the lock is given, the token accepted
#define KNOWN 7	// answered: the lock is given, but a token as large is known
#define RAISED 8	// answered: exactly the attempt's token accepted
#define NO_VOTE 9

typedef Conn {
	byte at;
	TOKEN value;	// the proposal in the message, or the token in the answer
};

typedef Link {
	byte since;	// the node forgot something: its votes abstain until this tick
	Conn to[ATTEMPTS];
};

typedef Attempt {
	byte phase;
	TOKEN token;	// what it proposes now; when it won, its token
	byte start;
	byte after;	// bit set of the attempts that had won before this one began
	bool again;	// it has asked a second time: what is asked on the wire has the second question behind it
};

Link link[NODES];
Attempt attempt[ATTEMPTS];
byte now;
byte losses;

byte i, j, set, kept;
int swap;

#ifdef REPLAY
#define NAMES 36
#define SWAPPED(n, m) (names ^ (((((names >> (2 * n)) ^ (names >> (2 * m))) & 3) << (2 * n)) | ((((names >> (2 * n)) ^ (names >> (2 * m))) & 3) << (2 * m))))
#else
#define NAMES 0
#define SWAPPED(n, m) 0
#endif
#define NAME(n) ('a' + ((names >> (2 * (n))) & 3))
byte names = NAMES;

#define AT(n, a) link[n].to[a].at
#define VALUE(n, a) link[n].to[a].value
#define OWN(a) (a + 1)
#define ABSTAINS(n) (now < link[n].since)
#define ACQUIRES(n, a) (AT(n, a) >= ASKED && AT(n, a) <= ASKED_AGAIN_NO_VOTE)
#define ON_WIRE(n, a) (AT(n, a) >= ASKED && AT(n, a) <= RAISE_ASKED)
#define GAVE_LOCK(n, a) (AT(n, a) == ACCEPTED || AT(n, a) == KNOWN)
#define ANSWERED(n, a) (AT(n, a) >= ACCEPTED && AT(n, a) <= RAISED)
#define IN(mask, n) ((mask >> (n)) & 1)

#if FLAW == AT_LEAST
#define IS_VOTE(n, a) (GAVE_LOCK(n, a) && VALUE(n, a) >= attempt[a].token)
#elif FLAW == OLD_TOKEN
#define IS_VOTE(n, a) (GAVE_LOCK(n, a) && VALUE(n, a) >= attempt[a].token && (attempt[a].again || AT(n, a) == ACCEPTED && VALUE(n, a) == attempt[a].token))
#elif FLAW == BOTH_ROUNDS
#define IS_VOTE(n, a) (AT(n, a) == ACCEPTED)
#else
#define IS_VOTE(n, a) (AT(n, a) == ACCEPTED && VALUE(n, a) == attempt[a].token)
#endif
#define VOTED(n, a) (AT(n, a) == RAISED || IS_VOTE(n, a))
#define COUNT(mask, a) ((IN(mask, 0) && VOTED(0, a)) + (IN(mask, 1) && VOTED(1, a)) + (IN(mask, 2) && VOTED(2, a)))
#define HEARD(mask, a) ((!IN(mask, 0) || ANSWERED(0, a)) && (!IN(mask, 1) || ANSWERED(1, a)) && (!IN(mask, 2) || ANSWERED(2, a)))

#define PER_TICK 4
#if HORIZON
#define CHOICES (SKEW + 1)
#define PROPOSED(f) ((now + 1 + f) * PER_TICK)
#else
#define CHOICES PROPOSALS
#define PROPOSED(f) (f + 1)
#endif

#define KEY(n) ((((node[n].owner << 8 | node[n].entry) << 4 | link[n].since) << 4 | AT(n, 0)) << 6 | VALUE(n, 0))
#if ATTEMPTS == 3
#define KEY2(n) (((AT(n, 1) << 6 | VALUE(n, 1)) << 4 | AT(n, 2)) << 6 | VALUE(n, 2))
#else
#define KEY2(n) (AT(n, 1) << 6 | VALUE(n, 1))
#endif

inline swaps(x, y) { swap = x; x = y; y = swap }

inline in_order(n, m) {
	if
	:: KEY(n) > KEY(m) || KEY(n) == KEY(m) && KEY2(n) > KEY2(m) ->
		swaps(node[n].owner, node[m].owner);
		swaps(node[n].entry, node[m].entry);
		swaps(link[n].since, link[m].since);
		swaps(AT(n, 0), AT(m, 0));
		swaps(VALUE(n, 0), VALUE(m, 0));
		swaps(AT(n, 1), AT(m, 1));
		swaps(VALUE(n, 1), VALUE(m, 1));
#if ATTEMPTS == 3
		swaps(AT(n, 2), AT(m, 2));
		swaps(VALUE(n, 2), VALUE(m, 2));
#endif
		names = SWAPPED(n, m)
	:: else
	fi
}

inline settle() {
	in_order(0, 1);
	in_order(1, 2);
	in_order(0, 1);
	heard();
	i = 0; j = 0; set = 0; kept = 0; swap = 0
}

inline says(n, a, stage, number) {
	AT(n, a) = stage;
	VALUE(n, a) = number
}

// An attempt ends, and what cannot matter any more is dropped. A command on the wire does matter.
inline finish(a, end) {
	set = 0;
	kept = 0;
	for (j : 0 .. NODES - 1) {
		if
		:: !ON_WIRE(j, a) -> says(j, a, NO_VOTE, 0)
		:: else -> set = set || (AT(j, a) == ASKED || AT(j, a) == ASKED_NO_VOTE); kept = kept || AT(j, a) == RAISE_ASKED
		fi
	}
	attempt[a].phase = end;
	attempt[a].start = 0;
	attempt[a].after = 0;
	attempt[a].again = attempt[a].again && set;
	if :: end == LOST && !kept && !attempt[a].again -> attempt[a].token = 0 :: else fi
}

#define POSSIBLE(n, a) ( \
	AT(n, a) == ASKED || AT(n, a) == ASKED_AGAIN -> attempt[a].phase == ACQUIRING || RAISE_ALL || COUNTER : \
	AT(n, a) >= RAISE_ASKED && AT(n, a) <= RAISED)
#define HOPELESS(a) (attempt[a].phase == LOST || (attempt[a].phase == RAISING || attempt[a].phase == ACQUIRING && (!ASKS_AGAIN || attempt[a].again)) && POSSIBLE(0, a) + POSSIBLE(1, a) + POSSIBLE(2, a) < MAJORITY)

inline give_up_if_hopeless(a) {
	if :: HOPELESS(a) -> finish(a, LOST) :: else fi
}

#if LIFETIME || defined(START_ALWAYS)
#define START now
#else
#define START 0
#endif

inline begins(a, f) {
	f < CHOICES && attempt[a].phase == IDLE && (a == 0 || attempt[a - (a > 0)].phase != IDLE);
	attempt[a].phase = ACQUIRING;
	attempt[a].token = PROPOSED(f);
	attempt[a].start = START;
	for (i : 0 .. ATTEMPTS - 1) {
		if :: attempt[i].phase == WON -> attempt[a].after = attempt[a].after | (1 << i) :: else fi
	}
	if :: a == 0 && ENTRIES > 1 -> printf("the nodes know %d, %d and %d: ", node[0].entry, node[1].entry, node[2].entry) :: else fi;
	for (i : 0 .. NODES - 1) {
		says(i, a, (ABSTAINS(i) -> ASKED_NO_VOTE : ASKED), attempt[a].token)
	}
	printf("client %d asks every node, and proposes %d\n", a + 1, attempt[a].token);
	settle()
}

#if FLAW == OLD_TOKEN
#define NEXT_MAY(a, f) (f == 0)
#define NEXT(a, f) attempt[a].token
#elif !HORIZON || FLAW == STALE_AGAIN
#define NEXT_MAY(a, f) (f == 0 || attempt[a].token + 1 + f <= PROPOSALS)
#define NEXT(a, f) (attempt[a].token + 1 + f)
#else
#define NEXT_MAY(a, f) (f < CHOICES)
#define NEXT(a, f) (PROPOSED(f) > attempt[a].token -> PROPOSED(f) : attempt[a].token + 1)
#endif

inline asks_again(a, f) {
	NEXT_MAY(a, f) && attempt[a].phase == ACQUIRING && !attempt[a].again;
	attempt[a].again = true;
	attempt[a].token = NEXT(a, f);
	for (i : 0 .. NODES - 1) {
		if
		:: ON_WIRE(i, a) -> AT(i, a) = (ABSTAINS(i) -> ASKED_NO_VOTE : ASKED)
		:: FLAW == BOTH_ROUNDS && AT(i, a) == ACCEPTED
		:: else -> says(i, a, (ABSTAINS(i) -> ASKED_AGAIN_NO_VOTE : ASKED_AGAIN), attempt[a].token)
		fi
	}
	printf("client %d asks every node again, and proposes %d\n", a + 1, attempt[a].token);
	settle()
}

inline largest(mask, a, condition) {
	for (i : 0 .. NODES - 1) {
		if :: IN(mask, i) && condition && VALUE(i, a) > swap -> swap = VALUE(i, a) :: else fi
	}
}

inline grant(a) {
	kept = 0;
	for (i : 0 .. NODES - 1) { kept = kept + (IN(set, i) && node[i].owner == OWN(a)) }
	swap = attempt[a].after;
	i = kept >= MAJORITY || BEYOND;
	printf(": it holds the lock with token %d\n", attempt[a].token);
	finish(a, WON);
	for (j : 0 .. ATTEMPTS - 1) {
		if
		:: j == a || attempt[j].phase != WON || attempt[a].token > attempt[j].token
		:: else ->
			if
			:: attempt[a].token == attempt[j].token -> printf("broken: unique: client %d has token %d, client %d has token %d\n", j + 1, attempt[j].token, a + 1, attempt[a].token); assert(false)
			:: else -> if
			:: IN(swap, j) -> printf("broken: order: client %d won before client %d began, yet client %d has token %d, client %d has token %d\n", j + 1, a + 1, j + 1, attempt[j].token, a + 1, attempt[a].token); assert(false)
			:: !IN(swap, j) && i -> printf("broken: grants: client %d won first and client %d, when it won, held a majority, yet client %d has token %d, client %d has token %d\n", j + 1, a + 1, j + 1, attempt[j].token, a + 1, attempt[a].token); assert(false)
			:: else
			fi fi
		fi
	}
}

inline decides(a, mask) {
	(attempt[a].phase == ACQUIRING || attempt[a].phase == RAISING && COUNT(mask, a) >= MAJORITY) && HEARD(mask, a) && (LIFETIME == 0 || now <= attempt[a].start + LIFETIME);
	printf("client %d has heard", a + 1);
	for (i : 0 .. NODES - 1) { if :: IN(mask, i) -> printf(" %c", NAME(i)) :: else fi }
	if :: COUNTER && attempt[a].phase == ACQUIRING -> largest(mask, a, GAVE_LOCK(i, a)); attempt[a].token = swap :: else fi;
	set = 0;
	for (i : 0 .. NODES - 1) { set = set | ((IN(mask, i) && VOTED(i, a)) << i) }
	if
	:: COUNT(mask, a) >= MAJORITY -> grant(a)
	:: else ->
		swap = attempt[a].token;
		if :: !COUNTER -> largest(mask, a, AT(i, a) == KNOWN); attempt[a].token = swap + 1 :: else fi;
		if
		:: FLAW == MAX_ONLY -> set = mask; grant(a)
		:: else ->
			attempt[a].phase = RAISING;
			for (i : 0 .. NODES - 1) {
				if
				:: !GAVE_LOCK(i, a) || IS_VOTE(i, a)
				:: else -> if
				:: !IN(mask, i) && !RAISE_ALL || ABSTAINS(i) && FLAW != RECREATE -> says(i, a, NO_VOTE, 0)
				:: else -> says(i, a, RAISE_ASKED, 0)
				fi fi
			}
			printf(": too few have accepted its token, it raises to %d\n", attempt[a].token);
			give_up_if_hopeless(a)
		fi
	fi;
	settle()
}

proctype Client(byte a) {
	do
	:: d_step { begins(a, 0) }
	:: d_step { begins(a, 1) }
	:: d_step { begins(a, 2) }
#if ASKS_AGAIN
	:: d_step { asks_again(a, 0) }
	:: d_step { asks_again(a, 1) }
	:: d_step { asks_again(a, 2) }
#endif
	:: d_step { decides(a, 3) }
	:: d_step { decides(a, 5) }
	:: d_step { decides(a, 6) }
	:: d_step { decides(a, 7) }
	od
}

#define COUNTS(n, a) (AT(n, a) == ASKED && !attempt[a].again || AT(n, a) == ASKED_AGAIN)
#define GOES_ON(n, a) (attempt[a].again && (AT(n, a) == ASKED || AT(n, a) == ASKED_NO_VOTE))

#if FLAW == CLIENT_CLOCK
#define OFFER(n, a) 0
#define TOLD(n, a) VALUE(n, a)
#elif COUNTER
#define OFFER(n, a) (node[n].entry + 1)
#else
#define OFFER(n, a) VALUE(n, a)
#endif
#ifndef TOLD
#define TOLD(n, a) known
#endif

#define SERVES(n, a) (UNREDUCED || GOES_ON(n, a) || node[n].owner != OWN(a) || OFFER(n, a) > node[n].entry || \
	COUNTS(n, a) && (attempt[a].phase == ACQUIRING || attempt[a].phase == RAISING && (RAISE_ALL || FLAW == AT_LEAST || FLAW == OLD_TOKEN)))

#if UNREDUCED
#define RAISE_SERVES(n, a) true
#elif FLAW == RAW_RAISE
#define RAISE_SERVES(n, a) (attempt[a].token > node[n].entry)
#elif FLAW == BLIND_OK || FLAW == AT_LEAST
#define RAISE_SERVES(n, a) (node[n].owner == OWN(a))
#elif FLAW == RECREATE
#define RAISE_SERVES(n, a) (node[n].owner != OWN(a) || attempt[a].token > node[n].entry)
#else
#define RAISE_SERVES(n, a) (node[n].owner == OWN(a) && attempt[a].token > node[n].entry)
#endif

inline go_on(n, a) {
	if
	:: GOES_ON(n, a) -> says(n, a, (AT(n, a) == ASKED -> ASKED_AGAIN : ASKED_AGAIN_NO_VOTE), attempt[a].token)
	:: else -> says(n, a, NO_VOTE, 0)
	fi
}

inline executes_acquire(n, a) {
	ACQUIRES(n, a) && SERVES(n, a);
	printf("node %c", NAME(n));
	if
	:: !UNREDUCED && node[n].owner != NOBODY && node[n].owner != OWN(a) ->
		printf(", where client %d's key has gone,", node[n].owner);
		goes(n)
	:: else
	fi;
	confirm(n, OWN(a), OFFER(n, a));
	if
	:: !given -> printf(" refuses client %d\n", a + 1); go_on(n, a)
	:: else ->
		if
		:: accepted -> printf(" gives client %d the lock and accepts %d\n", a + 1, VALUE(n, a))
		:: else -> printf(" gives client %d the lock, but knows %d\n", a + 1, known)
		fi;
		if
		:: COUNTS(n, a) ->
			says(n, a, (accepted -> ACCEPTED : KNOWN), TOLD(n, a));
			if
			:: attempt[a].phase == ACQUIRING || attempt[a].phase == RAISING && IS_VOTE(n, a)
			:: else -> says(n, a, (attempt[a].phase == RAISING && RAISE_ALL -> RAISE_ASKED : NO_VOTE), 0)
			fi
		:: else -> go_on(n, a)
		fi
	fi;
	give_up_if_hopeless(a);
	settle()
}

#if FLAW == RAW_RAISE
#define RAISER(n, a) node[n].owner
#else
#define RAISER(n, a) OWN(a)
#endif

inline executes_raise(n, a) {
	AT(n, a) == RAISE_ASKED && RAISE_SERVES(n, a);
	if :: FLAW == RECREATE && !(UNREDUCED && node[n].owner != NOBODY) -> node[n].owner = OWN(a) :: else fi;
	raise(n, RAISER(n, a), attempt[a].token);
	if
	:: accepted -> printf("node %c accepts client %d's %d\n", NAME(n), a + 1, known)
	:: else -> printf("node %c does not accept client %d's %d\n", NAME(n), a + 1, attempt[a].token)
	fi;
	says(n, a, (accepted || given && (FLAW == BLIND_OK || FLAW == AT_LEAST) -> RAISED : NO_VOTE), 0);
	give_up_if_hopeless(a);
	settle()
}

inline loses_data(n) {
	losses < LOSSES && !ABSTAINS((n + 1) % 3) && !ABSTAINS((n + 2) % 3);
	losses++;
	lose(n, FORGET_TO);
	printf("node %c loses its data\n", NAME(n));
	if
	:: !SILENT ->
		for (i : 0 .. ATTEMPTS - 1) {
			if :: ON_WIRE(n, i) -> says(n, i, NO_VOTE, 0); give_up_if_hopeless(i) :: else fi
		}
		if :: GUARD > 0 -> link[n].since = (now + GUARD < 7 -> now + GUARD : 7) :: else fi
	:: else
	fi;
	settle()
}

#define OLDEST ((now + 1 + SKEW - RETENTION) * PER_TICK)
inline trims(n) {
	node[n].entry > 0 && node[n].entry < OLDEST;
	printf("node %c drops %d\n", NAME(n), node[n].entry);
	trim(n, OLDEST);
	settle()
}

inline hands_over(n, a) {
	AT(n, a) <= ASKED && attempt[a].phase < WON && node[n].owner != NOBODY && node[n].owner != OWN(a) && attempt[node[n].owner - 1].phase == WON;
	printf("node %c hands the lock over from client %d to client %d\n", NAME(n), node[n].owner, a + 1);
	hand_over(n, node[n].owner, OWN(a), 0);
	settle()
}

inline repairs(n, a) {
	attempt[a].phase == WON && node[n].owner != OWN(a) && (!UNREDUCED || node[n].owner == NOBODY);
	printf("client %d sets its key again on node %c\n", a + 1, NAME(n));
	goes(n);
#ifdef EXACT
	gives(n, OWN(a)); propose(n, attempt[a].token);
#else
	extend(n, OWN(a), attempt[a].token);
#endif
	settle()
}

inline expires_key(n) {
	node[n].owner != NOBODY;
	printf("client %d's key on node %c goes\n", node[n].owner, NAME(n));
	goes(n);
	settle()
}

proctype Master(byte n) {
	do
	:: d_step { executes_acquire(n, 0) }
	:: d_step { executes_acquire(n, 1) }
	:: d_step { executes_raise(n, 0) }
	:: d_step { executes_raise(n, 1) }
#if ATTEMPTS == 3
	:: d_step { executes_acquire(n, 2) }
	:: d_step { executes_raise(n, 2) }
#endif
#if LOSSES
	:: d_step { loses_data(n) }
#endif
#if RETENTION
	:: d_step { trims(n) }
#endif
#if HAND_OVER
	:: d_step { hands_over(n, 0) }
	:: d_step { hands_over(n, 1) }
#if ATTEMPTS == 3
	:: d_step { hands_over(n, 2) }
#endif
#endif
#if REPAIR
	:: d_step { repairs(n, 0) }
	:: d_step { repairs(n, 1) }
#if ATTEMPTS == 3
	:: d_step { repairs(n, 2) }
#endif
#endif
#if UNREDUCED
	:: d_step { expires_key(n) }
#endif
	od
}

proctype Clock() {
	do
	:: d_step {
		now < HORIZON;
		now++;
		printf("it is %d\n", now);
		for (i : 0 .. NODES - 1) {
			if :: !ABSTAINS(i) -> link[i].since = 0 :: else fi
		}
		settle()
	}
	od
}

inline knows(x, y, z) { node[0].entry = x; node[1].entry = y; node[2].entry = z }

init {
	atomic {
		if
		:: d_step { knows(0, 0, 0) }
#if ENTRIES > 1
		:: d_step { knows(0, 0, 1) }
		:: d_step { knows(0, 1, 1) }
		:: d_step { knows(1, 1, 1) }
#endif
#if ENTRIES > 2
		:: d_step { knows(0, 0, 2) }
		:: d_step { knows(0, 1, 2) }
		:: d_step { knows(1, 1, 2) }
		:: d_step { knows(0, 2, 2) }
		:: d_step { knows(1, 2, 2) }
		:: d_step { knows(2, 2, 2) }
#endif
		fi;
		run Client(0); run Client(1);
#if ATTEMPTS == 3
		run Client(2);
#endif
#if HORIZON
		run Clock();
#endif
		run Master(0); run Master(1); run Master(2)
	}
}
