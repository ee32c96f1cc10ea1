// A change of the list of masters: see lists.md.
//
// Modelled. Two or three clients come, win, raise their token once, extend, give up and crash, with any lists, or in a
// rolling change (old, both, new; old, both, old). Requests arrive late or never; answers count or are late. A key
// stands while its client asks or has a hold that rests on it, since validity ends before the TTL. Any other goes when
// somebody else's request comes, which is as good as any time before. Keys go at any moment lets those of holds go,
// too; then only order is demanded. Repair sets a hold's key again where it is gone.
// Bounds. Six masters; one to three tokens to propose; two or three ticks. REDUCE sorts masters that are alike, and
// clients count no more answers than they need: the verdicts are the same without it. Traces are told without it.
// Not modelled, since it is the same with one list: masters that forget (guard.md), a second question, the hand-over
// (handover.md). To adopt a ticket is an extension.
//
// run: one replaced | -DTOKENS=2 -DREDUCE | holds in 25,000
// run: all replaced | -DB=56 -DTOKENS=2 -DREDUCE | holds in 40,000
// run: three and five | -DB=31 -DTOKENS=2 -DREDUCE | holds in 50,000
// run: rolling, repair | -DCLIENTS=3 -DLAST=NEW -DTOKENS=2 -DREPAIR -DREDUCE | holds in 150,000
// run: backed out | -DCLIENTS=3 -DLAST=OLD -DREDUCE | holds in 30,000
// run: keys go at any moment | -DLAPSES -DREDUCE | holds in 200,000
// run: order across, D=1, two ticks | -DACROSS -DHORIZON=2 -DTOKENS=2 -DMIDDLE=2 -DREDUCE | holds in 200,000
// run: order across, D=1, one tick | -DACROSS -DHORIZON=1 -DTOKENS=2 -DMIDDLE=1 | breaks unique in 10
// run: two lists beside each other | -DBESIDE | breaks exclusion in 8
// run: lists that always meet beside each other | -DPAIRS -DTOKENS=2 -DREDUCE | holds in 10,000
// run: majority of the union, all replaced | -DB=56 -DUNION | breaks exclusion in 10
// run: an extension ignores the new list | -DTOKENS=2 -DNEW_IGNORED | breaks exclusion in 10
// run: one list accepts | -DTOKENS=2 -DONE_ACCEPTS | breaks unique in 10
// deep: majority of the union, two replaced | -DB=28 -DUNION | breaks exclusion in 9
// deep: order across, D=0, one tick | -DACROSS -DHORIZON=2 -DMIDDLE=1 -DREDUCE | holds in 70,000
// deep: order across, D=0, at once | -DACROSS -DHORIZON=1 | breaks unique in 9
// deep: order across, no clock | -DACROSS | breaks unique in 9
// deep: one replaced, not reduced | -DTOKENS=2 | holds in 40,000
// deep: three and four | -DB=15 -DTOKENS=3 -DREDUCE | holds in 40,000
// deep: majority of the union, one replaced | -DTOKENS=2 -DUNION -DREDUCE | holds in 25,000
// deep: one of five replaced | -DA=31 -DB=47 -DCLIENTS=3 -DLAST=NEW -DREDUCE | holds in 200,000
// deep: order across, D=2, two ticks | -DACROSS -DHORIZON=2 -DTOKENS=3 -DMIDDLE=2 | breaks unique in 11
// deep: order across, D=1, two ticks, three clients | -DACROSS -DHORIZON=3 -DTOKENS=2 -DMIDDLE=2 -DCLIENTS=3 -DLAST=NEW -DREDUCE | holds in 400,000
// deep: one replaced, three clients | -DCLIENTS=3 -DREDUCE | holds in 600,000
// deep: keys go at any moment, rolling | -DLAPSES -DCLIENTS=3 -DLAST=NEW -DREDUCE | holds in 1,500,000
// deep: all replaced, three clients | -DB=56 -DCLIENTS=3 -DREDUCE | holds in 1,000,000
// deep: three and five, three clients | -DB=31 -DCLIENTS=3 -DREDUCE | holds in 1,000,000

// The old list A and the new list B: a bit for each node. Nodes that are in the same lists must have bits side by side.
#ifdef PAIRS	// any two lists of up to four nodes whose majorities always meet; clients of both are out at once
#define BESIDE
#define ACROSS
byte A, B;
#else
#ifndef A
#define A 7	// a, b and c
#endif
#ifndef B
#define B 11	// a, b and d
#endif
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef HORIZON
#define HORIZON 0	// 0: there is no clock
#endif
#ifndef TOKENS
#define TOKENS 1	// how many tokens a client may propose at a time: with a clock, D + 1
#endif
#ifndef MIDDLE
#define MIDDLE 0	// ticks between the last client of one list alone and the first of the other alone
#endif
#if HORIZON
#define PROPOSAL(i) ((now + i) * 4)	// a raise stays within its tick
#else
#define PROPOSAL(i) (i)
#endif

// The lists that a client votes with.
#define OLD 1
#define NEW 2
#define BOTH 3
#define NODES 6
#define LISTED(n) ((A | B) >> (n) & 1)
#define ALIKE(n) (((A >> (n) ^ A >> (n + 1)) & 1) == 0 && ((B >> (n) ^ B >> (n + 1)) & 1) == 0)
#define SIZE(l) (((l) & 1) + ((l) >> 1 & 1) + ((l) >> 2 & 1) + ((l) >> 3 & 1) + ((l) >> 4 & 1) + ((l) >> 5 & 1))
#define ASKED(w, n) (((w) & OLD && A >> (n) & 1) || ((w) & NEW && B >> (n) & 1))

// What is on the wire between a client and a node, or what came of it.
#define NOTHING 0
#define ACQUIRE 1	// the acquire is on the wire; if the client has raised its token, the raise is behind it
#define RAISE 2
#define UNHEARD 3	// the node gave the lock, and the client does not count its answer
#define ACCEPTS 4	// the node gave the lock and accepted the token
#define RESTS 5	// the hold rests on this node's vote
#define KNOWS 6	// plus a token: the node gave the lock, but knows that token

// How far a client has come.
#define IDLE 0
#define ACQUIRING 1
#define RAISING 2
#define WON 3
#define LOST 4
#define OVER 5

#define NOBODY CLIENTS

typedef Node {
	byte owner = NOBODY;
	byte entry;	// the largest token accepted
	byte request[CLIENTS];
};

typedef Client {
	byte phase;
	byte with;	// its lists
	byte proposal;	// what its acquire proposes
	byte token;	// the same, or what the raise made of it
	byte after;	// the holds that had won before it began, a bit for each
};

Node node[NODES];
Client client[CLIENTS];
byte now;
byte may[3];	// the tick from which clients with OLD alone, or NEW alone, may come

// What a step needs while it is taken; 0 in between.
byte i, n, known, set;
bool swapped;

// Votes: how many nodes of a list fulfil x, and whether they are a majority of each list that the client has.
#define IN(l, x, c) (((l) & 1 && x(0, c)) + ((l) & 2 && x(1, c)) + ((l) & 4 && x(2, c)) \
	+ ((l) & 8 && x(3, c)) + ((l) & 16 && x(4, c)) + ((l) & 32 && x(5, c)))
#define MAJORITY(l, x, c) (2 * IN(l, x, c) > SIZE(l))
#ifdef UNION
#define ENOUGH(w, x, c) ((w) == BOTH && MAJORITY(A | B, x, c) || (w) == OLD && MAJORITY(A, x, c) \
	|| (w) == NEW && MAJORITY(B, x, c))
#else
#define ENOUGH(w, x, c) ((((w) & OLD) == 0 || MAJORITY(A, x, c)) && (((w) & NEW) == 0 || MAJORITY(B, x, c)))
#endif
#ifdef NEW_IGNORED
#define ENOUGH_TO_EXTEND(c, x) ENOUGH((client[c].with == BOTH -> OLD : client[c].with), x, c)
#else
#define ENOUGH_TO_EXTEND(c, x) ENOUGH(client[c].with, x, c)
#endif
#ifdef ONE_ACCEPTS
#define COUNTED GAVE
#define WINS(c) (ENOUGH(client[c].with, GAVE, c) && (ENOUGH(client[c].with, ACCEPTED, c) \
	|| client[c].with == BOTH && (MAJORITY(A, ACCEPTED, c) || MAJORITY(B, ACCEPTED, c))))
#else
#define COUNTED ACCEPTED
#define WINS(c) ENOUGH(client[c].with, ACCEPTED, c)
#endif

// Of the answers that a client counts when it wins, none is more than it needs: another may count as late.
#ifdef REDUCE
#define EXACTLY(l, c) (IN(l, ACCEPTED, c) == SIZE(l) / 2 + 1)
#define NEEDS_ALL(c) (client[c].phase == RAISING || \
	client[c].with == OLD && EXACTLY(A, c) || client[c].with == NEW && EXACTLY(B, c) || client[c].with == BOTH && \
	(EXACTLY(A, c) && (EXACTLY(B, c) || IN(B & ~A, ACCEPTED, c) == 0) || EXACTLY(B, c) && IN(A & ~B, ACCEPTED, c) == 0))
#else
#define NEEDS_ALL(c) true
#endif

#define GAVE(n, c) (node[n].request[c] == ACCEPTS || node[n].request[c] >= KNOWS)
#define ACCEPTED(n, c) (node[n].request[c] == ACCEPTS)
#define RESTS_ON(n, c) (node[n].request[c] == RESTS)
#define HAS(n, c) (node[n].owner == c && (node[n].request[c] == NOTHING || node[n].request[c] == RESTS))
#define REST_WITHOUT(n, c) (RESTS_ON(n, c) && n != m)

#define LIVE(c) (client[c].phase == ACQUIRING || client[c].phase == RAISING || client[c].phase == WON)
#define HAS_WON(c) (client[c].phase == WON || client[c].phase == OVER)

// The key on a node cannot go while its client asks, or has a hold that rests on it. Any other goes when somebody
// else's acquire or repair comes: a moment before is as good as any earlier one.
#ifdef LAPSES
#define STANDS(n) false
#else
#define STANDS(n) (node[n].owner != NOBODY && LIVE(node[n].owner) \
	&& (client[node[n].owner].phase != WON || RESTS_ON(n, node[n].owner)))
#endif

// Who may be out together: never a client with OLD alone beside one with NEW alone.
#define APART(c, w) (LIVE(c) && (client[c].with & (w)) == 0)
#if CLIENTS == 3
#define ANY_APART(w) (APART(0, w) || APART(1, w) || APART(2, w))
#define DECIDED (client[0].phase >= WON && client[1].phase >= WON && client[2].phase >= WON)
#define ORDER(n) ((((node[n].owner * 32 + node[n].entry) * 64 + node[n].request[0]) * 64 + node[n].request[1]) * 64 \
	+ node[n].request[2])
#else
#define ANY_APART(w) (APART(0, w) || APART(1, w))
#define DECIDED (client[0].phase >= WON && client[1].phase >= WON)
#define ORDER(n) (((node[n].owner * 32 + node[n].entry) * 64 + node[n].request[0]) * 64 + node[n].request[1])
#endif
#ifdef BESIDE
#define MAY_COME(w) true
#else
#define MAY_COME(w) ((w) == BOTH || (!ANY_APART(w) && may[w] <= now))
#endif
#ifdef PAIRS
#define MAY_HAVE(c, w) ((w) == (c == 0 -> OLD : NEW))
#elif defined(LAST)	// a rolling change, or one that is backed out of
#define MAY_HAVE(c, w) ((w) == (c == 0 -> OLD : (c == 1 -> BOTH : LAST)))
#else
#define MAY_HAVE(c, w) true
#endif

// tidy drops what nothing can follow from, and sorts nodes that are alike, so that like states are one.
inline tidy() {
	for (n : 0 .. NODES - 1) {
		if
		:: node[n].owner != NOBODY && !LIVE(node[n].owner) && node[n].request[node[n].owner] != RAISE ->
			node[n].owner = NOBODY	// it may go at any moment
		:: else
		fi;
		for (i : 0 .. CLIENTS - 1) {
			if
			:: node[n].request[i] == ACQUIRE && !LIVE(i) && client[i].token <= node[n].entry ->
				node[n].request[i] = NOTHING	// it could only take a key away
			:: node[n].request[i] == RAISE && (node[n].owner != i || client[i].token <= node[n].entry) ->
				node[n].request[i] = NOTHING	// the node refuses it
			:: else
			fi
		}
	}
	for (i : 0 .. CLIENTS - 1) {
		if
		:: client[i].phase == LOST && node[0].request[i] == NOTHING && node[1].request[i] == NOTHING &&
			node[2].request[i] == NOTHING && node[3].request[i] == NOTHING && node[4].request[i] == NOTHING &&
			node[5].request[i] == NOTHING -> client[i].with = 0; client[i].proposal = 0; client[i].token = 0
		:: client[i].phase != LOST && node[0].request[i] != ACQUIRE && node[1].request[i] != ACQUIRE &&
			node[2].request[i] != ACQUIRE && node[3].request[i] != ACQUIRE && node[4].request[i] != ACQUIRE &&
			node[5].request[i] != ACQUIRE -> client[i].proposal = 0
		:: else
		fi
	}
	if
	:: DECIDED ->	// nobody can win any more
		for (n : 0 .. NODES - 1) {
			node[n].owner = NOBODY;
			node[n].entry = 0;
			for (i : 0 .. CLIENTS - 1) { node[n].request[i] = NOTHING }
		}
		for (i : 0 .. CLIENTS - 1) {
			client[i].phase = OVER;
			client[i].with = 0;
			client[i].proposal = 0;
			client[i].token = 0;
			client[i].after = 0
		}
		now = HORIZON;
		may[OLD] = 0;
		may[NEW] = 0
	:: else ->
#ifdef REDUCE
		swapped = true;
		do
		:: swapped ->
			swapped = false;
			for (n : 0 .. NODES - 2) {
				if
				:: ALIKE(n) && ORDER(n) > ORDER(n + 1) -> swap(n, n + 1)
				:: else
				fi
			}
		:: else -> break
		od
#else
		skip
#endif
	fi;
	n = 0;
	i = 0;
	known = 0;
	set = 0
}

inline exchange(x, y) {
	known = x;
	x = y;
	y = known
}

inline swap(n, m) {
	exchange(node[n].owner, node[m].owner);
	exchange(node[n].entry, node[m].entry);
	for (i : 0 .. CLIENTS - 1) { exchange(node[n].request[i], node[m].request[i]) }
	swapped = true
}

#ifdef ACROSS	// order is demanded between a hold with OLD alone and one with NEW alone, too
#define SHARED(c, i) true
#else
#define SHARED(c, i) ((client[c].with & client[i].with) != 0)
#endif

#define MASK(x, c) (x(0, c) | x(1, c) << 1 | x(2, c) << 2 | x(3, c) << 3 | x(4, c) << 4 | x(5, c) << 5)
#define ASKED_BY(n, c) ASKED(client[c].with, n)

inline tell(mask) {
	set = mask;
	for (n : 0 .. NODES - 1) {
		if
		:: set & 1 << n ->
			set = set & ~(1 << n);
			printf("%c", 'a' + n);
			if
			:: set & (set - 1) -> printf(", ")
			:: set != 0 && !(set & (set - 1)) -> printf(" and ")
			:: else
			fi
		:: else
		fi
	}
}

inline tellLists(lists) {
	if
	:: lists == OLD -> printf("the old list")
	:: lists == NEW -> printf("the new list")
	:: else -> printf("both lists")
	fi
}

#ifdef BESIDE
#define TELL_TOKEN(text, token) skip
#else
#define TELL_TOKEN(text, token) printf(text, token)
#endif

inline begins(c, w, t) {
	client[c].phase == IDLE && (c == 0 || client[c - 1].phase != IDLE) &&	// clients are alike: they begin in order
		MAY_HAVE(c, w) && MAY_COME(w);
	client[c].phase = ACQUIRING;
	client[c].with = w;
	client[c].proposal = PROPOSAL(t);
	client[c].token = PROPOSAL(t);
	for (n : 0 .. NODES - 1) {
		if :: ASKED(w, n) -> node[n].request[c] = ACQUIRE :: else fi
	}
#ifdef LAPSES
	for (i : 0 .. CLIENTS - 1) {
		if :: HAS_WON(i) -> client[c].after = client[c].after | 1 << i :: else fi
	}
#endif
	printf("client %d (", c + 1); tellLists(w); printf(") asks "); tell(MASK(ASKED_BY, c));
	TELL_TOKEN(" and proposes token %d", client[c].token); printf("\n");
	tidy()
}

// rests lets a hold rest on the votes that its client counts, and on no other node that it has heard of.
inline rests(c, votes) {
	set = votes;
	for (n : 0 .. NODES - 1) {
		if
		:: set >> n & 1 -> node[n].request[c] = RESTS
		:: !(set >> n & 1) && node[n].request[c] != ACQUIRE && node[n].request[c] != RAISE -> node[n].request[c] = NOTHING
		:: else
		fi
	}
}

inline wins(c) {
	(client[c].phase == ACQUIRING || client[c].phase == RAISING) && WINS(c) && NEEDS_ALL(c);
	client[c].phase = WON;
	printf("client %d has ", c + 1); tell(MASK(COUNTED, c)); printf(", a majority of "); tellLists(client[c].with);
	printf(": it holds the lock"); TELL_TOKEN(" with token %d", client[c].token); printf("\n");
	for (i : 0 .. CLIENTS - 1) {
		if
		:: i == c || !HAS_WON(i)
#ifndef LAPSES
		:: i != c && client[i].phase == WON ->
			printf("broken: exclusion: client %d and client %d hold the lock at the same time\n", i + 1, c + 1);
			assert(false)
		:: i != c && client[i].phase == OVER && SHARED(c, i) && client[i].token > client[c].token ->
#else
		:: i != c && HAS_WON(i) && SHARED(c, i) && client[i].token > client[c].token && client[c].after >> i & 1 ->
#endif
			printf("broken: order: client %d held the lock first, with token %d, client %d has token %d\n",
				i + 1, client[i].token, c + 1, client[c].token);
			assert(false)
		:: i != c && HAS_WON(i) && SHARED(c, i) && client[i].token == client[c].token ->
			printf("broken: unique: client %d and client %d have token %d\n", i + 1, c + 1, client[c].token);
			assert(false)
		:: else
		fi
	}
	rests(c, MASK(COUNTED, c));
	tidy()
}

inline raises(c) {
	client[c].phase == ACQUIRING && ENOUGH(client[c].with, GAVE, c) && !WINS(c);
	client[c].phase = RAISING;
	for (n : 0 .. NODES - 1) {
		if
		:: node[n].request[c] > KNOWS + client[c].token -> client[c].token = node[n].request[c] - KNOWS
		:: else
		fi
	}
	client[c].token++;
	for (n : 0 .. NODES - 1) {
		if
		:: node[n].request[c] != NOTHING && node[n].request[c] != ACQUIRE -> node[n].request[c] = RAISE
		:: else	// where the acquire is on the wire, the raise is behind it
		fi
	}
	printf("client %d has the lock from a majority, and raises its token to %d\n", c + 1, client[c].token);
	tidy()
}

inline extends(c) {
	client[c].phase == WON && ENOUGH_TO_EXTEND(c, HAS);
	printf("client %d extends its hold on ", c + 1); tell(MASK(HAS, c)); printf("\n");
	rests(c, MASK(HAS, c));
	tidy()
}

inline extendsWithout(c, m) {
	client[c].phase == WON && RESTS_ON(m, c) && ENOUGH_TO_EXTEND(c, REST_WITHOUT);
	printf("client %d extends its hold on ", c + 1); tell(MASK(REST_WITHOUT, c)); printf("\n");
	rests(c, MASK(REST_WITHOUT, c));
	tidy()
}

inline ends(c) {
	LIVE(c);
	if
	:: client[c].with == OLD && MIDDLE > 0 -> may[NEW] = now + MIDDLE
	:: client[c].with == NEW && MIDDLE > 0 -> may[OLD] = now + MIDDLE
	:: else
	fi;
	client[c].phase = (client[c].phase == WON -> OVER : LOST);
	rests(c, 0);
	printf("client %d ends its hold, gives up or crashes\n", c + 1);
	tidy()
}

proctype Redlock(byte c) {
	do
	:: d_step { begins(c, OLD, 1) }
	:: d_step { begins(c, NEW, 1) }
	:: d_step { begins(c, BOTH, 1) }
#if TOKENS > 1
	:: d_step { begins(c, OLD, 2) }
	:: d_step { begins(c, NEW, 2) }
	:: d_step { begins(c, BOTH, 2) }
#endif
#if TOKENS > 2
	:: d_step { begins(c, OLD, 3) }
	:: d_step { begins(c, NEW, 3) }
	:: d_step { begins(c, BOTH, 3) }
#endif
	:: d_step { wins(c) }
	:: d_step { raises(c) }
	:: d_step { extends(c) }
	:: d_step { extendsWithout(c, 0) }
	:: d_step { extendsWithout(c, 1) }
	:: d_step { extendsWithout(c, 2) }
	:: d_step { extendsWithout(c, 3) }
#if defined(PAIRS) || (A | B) > 15
	:: d_step { extendsWithout(c, 4) }
	:: d_step { extendsWithout(c, 5) }
#endif
	:: d_step { ends(c) }
	od
}

// An acquire that would be refused stays on the wire. Of those that are executed, some answers are not counted.
inline executesAcquire(m, c) {
	node[m].request[c] == ACQUIRE && !STANDS(m);
	node[m].owner = c;
	known = node[m].entry;
	if
	:: client[c].proposal > known -> node[m].entry = client[c].proposal
	:: else
	fi;
	printf("%c gives client %d the lock", 'a' + m, c + 1);
	if
	:: client[c].token > client[c].proposal -> node[m].request[c] = RAISE
	:: client[c].token <= client[c].proposal && client[c].phase != ACQUIRING -> node[m].request[c] = NOTHING
	:: else ->
		if
		:: client[c].proposal > known -> node[m].request[c] = ACCEPTS
		:: else ->
			node[m].request[c] = KNOWS + known;
			printf(", but knows token %d", known)
		fi
	fi;
	printf("\n");
	tidy()
}

inline executesAcquireUnheard(m, c) {
	node[m].request[c] == ACQUIRE && !STANDS(m) && client[c].phase == ACQUIRING;
	node[m].owner = c;
	if
	:: client[c].proposal > node[m].entry -> node[m].entry = client[c].proposal
	:: else
	fi;
	node[m].request[c] = UNHEARD;
	printf("%c gives client %d the lock; the answer is late\n", 'a' + m, c + 1);
	tidy()
}

inline executesRaise(m, c) {
	node[m].request[c] == RAISE;	// tidy keeps no other than those that the node accepts
	node[m].entry = client[c].token;
	node[m].request[c] = (client[c].phase == RAISING -> ACCEPTS : NOTHING);
	printf("%c accepts token %d from client %d\n", 'a' + m, client[c].token, c + 1);
	tidy()
}

inline repairs(m, c) {
	HAS_WON(c) && !DECIDED && node[m].owner != c && ASKED(client[c].with, m) && !STANDS(m) &&
		(node[m].request[c] == NOTHING || node[m].request[c] == RESTS);
	node[m].owner = c;
	if
	:: client[c].token > node[m].entry -> node[m].entry = client[c].token
	:: else
	fi;
	node[m].request[c] = NOTHING;
	printf("client %d sets its key again on %c\n", c + 1, 'a' + m);
	tidy()
}

proctype Master(byte m) {
	do
	:: d_step { executesAcquire(m, 0) }
	:: d_step { executesAcquire(m, 1) }
	:: d_step { executesAcquireUnheard(m, 0) }
	:: d_step { executesAcquireUnheard(m, 1) }
	:: d_step { executesRaise(m, 0) }
	:: d_step { executesRaise(m, 1) }
#ifdef REPAIR
	:: d_step { repairs(m, 0) }
	:: d_step { repairs(m, 1) }
#endif
#if CLIENTS == 3
	:: d_step { executesAcquire(m, 2) }
	:: d_step { executesAcquireUnheard(m, 2) }
	:: d_step { executesRaise(m, 2) }
#ifdef REPAIR
	:: d_step { repairs(m, 2) }
#endif
#endif
	od
}

proctype Clock() {
	do
	:: d_step {
		now < HORIZON;
		now++;
		if :: may[OLD] <= now -> may[OLD] = 0 :: else fi;
		if :: may[NEW] <= now -> may[NEW] = 0 :: else fi;
		printf("time goes on\n")
	}
	od
}

#define LEAST(size, shared) (size / 2 + 1 > size - shared -> size / 2 + 1 - (size - shared) : 0)

init {
	byte p;
	atomic {
#ifdef PAIRS
		byte a, b, shared;
		select(a : 1 .. 4);
		select(b : a .. 4);
		select(shared : 0 .. a);
		// A majority of a list has so many of the shared nodes at least; if both find so many, they need not meet.
		a + b - shared <= NODES && LEAST(a, shared) + LEAST(b, shared) > shared;
		A = (1 << a) - 1;
		B = ((1 << b) - 1) << (a - shared);
#endif
		// Spin tries the last process first, so the stories that it tells begin with a and client 1.
		run Clock();
		p = CLIENTS;
		do
		:: p > 0 -> p--; run Redlock(p)
		:: else -> break
		od;
		p = NODES;
		do
		:: p > 0 ->
			p--;
			if :: LISTED(p) -> run Master(p) :: else fi
		:: else -> break
		od
	}
}
