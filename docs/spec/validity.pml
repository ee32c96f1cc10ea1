// How long a holder may trust its hold: see validity.md.
//
// Modelled. Three masters and two clients that may ask at any moment. Client 1 extends once. Requests and answers are
// late or never come, but keep their order on a connection. The clock of a, and that of client 2, makes five ticks
// while those of b, c and client 1 make four; TTL five, drift one: a fifth. One tick less breaks, so it is tight.
// Bounds. Somebody begins within the first TTL; the second hold begins before the first is over. From there on, one of
// them alone breaks nothing, and the model stops.
// Not modelled. Clocks that are set (a master's: see assumption 1 of docs/safety.md); Redis's rounding to milliseconds, for
// which the library subtracts 2 ms more; masters that forget (guard.md); repair.
//
// run: a fifth is subtracted | -DDRIFT=1 | holds in 300,000
// run: nothing is subtracted | -DDRIFT=0 | breaks exclusion in 13
// run: counted from the end of the attempt | -DDRIFT=1 -DFROM_ITS_END | breaks exclusion in 13
// run: an extension counted from its answers | -DDRIFT=1 -DFROM_ITS_ANSWERS | breaks exclusion in 17
// deep: clocks run alike, nothing is subtracted | -DRATE=5 -DDRIFT=0 | holds in 800,000
// deep: every node is fast | -DFAST=3 -DDRIFT=1 | holds in 400,000

#define TTL 5
#ifndef RATE
#define RATE 4	// the clock of client 1 makes so many ticks while that of a fast node makes five
#endif
#ifndef FAST
#define FAST 1	// how many nodes are fast; the clocks of others run as slowly as that of client 1
#endif
#ifndef HORIZON
#define HORIZON 12
#endif
#define NODES 3
#define MAJORITY 2
#define CLIENTS 2
#define NOBODY CLIENTS

// What became of a request at a node.
#define UNSENT 0
#define ON_THE_WIRE 1
#define YES 2
#define VOID 3	// the node said no, or its yes does not matter any more

typedef Node {
	byte owner = NOBODY;
	byte expires;	// when the key is gone, by the node's clock
	byte acquire[CLIENTS];
	byte extend;	// by client 1, once
};

typedef Client {
	byte begun;	// when the requests were sent, by the client's clock
	byte until;	// the end of the validity, by the same clock
	bool asks, holds;
};

Node node[NODES];
Client client[CLIENTS];
byte now;	// ticks of a fast clock
byte asked;	// when client 1 has sent the extension, by its clock
bool decided;
byte i, n;	// what a step needs while it is taken; 0 in between

#define SLOW_CLOCK (now * RATE / 5)
#define NODES_CLOCK(n) (n < FAST -> now : SLOW_CLOCK)
#define CLOCK(c) (c == 0 -> SLOW_CLOCK : now)

#define BEGUN (client[0].asks || client[0].holds || client[1].asks || client[1].holds)
#define VALID(c) (client[c].holds && CLOCK(c) < client[c].until)
#define VOTES(request) ((node[0].request == YES) + (node[1].request == YES) + (node[2].request == YES))

#ifdef FROM_ITS_END
#define BEGINNING(c) CLOCK(c)
#else
#define BEGINNING(c) client[c].begun
#endif
#ifdef FROM_ITS_ANSWERS
#define ASKED SLOW_CLOCK
#else
#define ASKED asked
#endif
#define IN_TIME(c) (CLOCK(c) < BEGINNING(c) + TTL - DRIFT)

// A hold gets valid, or valid for longer, only in these two steps.
inline trusts(c) {
	client[c].holds = true;
	printf(" and holds the lock until %d by its clock, which shows %d\n", client[c].until, CLOCK(c));
	if
	:: VALID(0) && VALID(1) -> printf("broken: exclusion: both holds are valid\n"); assert(false)
	:: else
	fi
}

#define VOIDS(n, request) if :: node[n].request == YES -> node[n].request = VOID :: else fi
#define DROPS(request) VOIDS(0, request); VOIDS(1, request); VOIDS(2, request)

proctype Redlock(byte c) {
	d_step {
		!decided;
		client[c].asks = true;
		client[c].begun = CLOCK(c);
		for (n : 0 .. NODES - 1) { node[n].acquire[c] = ON_THE_WIRE }
		n = 0;
		printf("%d: client %d looks at its clock, which shows %d, and asks every node\n", now, c + 1, client[c].begun)
	}
	d_step {
		VOTES(acquire[c]) >= MAJORITY && IN_TIME(c) && client[c].asks;
		printf("%d: client %d has a majority", now, c + 1);
		client[c].until = BEGINNING(c) + TTL - DRIFT;
		trusts(c);
		client[c].asks = false;
		client[c].begun = 0;
		DROPS(acquire[c])
	}
	d_step {
		c == 0 && VALID(c);
		asked = CLOCK(c);
		for (n : 0 .. NODES - 1) { node[n].extend = ON_THE_WIRE }
		n = 0;
		printf("%d: client %d looks at its clock, which shows %d, and asks every node to extend\n", now, c + 1, asked)
	}
	d_step {
		VOTES(extend) >= MAJORITY && VALID(c);
		printf("%d: client %d has a majority for its extension", now, c + 1);
		client[c].until = ASKED + TTL - DRIFT;
		trusts(c);
		asked = 0;
		DROPS(extend)
	}
	false
}

inline executesAcquire(m, c) {
	node[m].acquire[c] == ON_THE_WIRE && node[m].owner == NOBODY;
	node[m].owner = c;
	node[m].expires = NODES_CLOCK(m) + TTL;
	node[m].acquire[c] = YES;
	printf("%d: %c gives client %d the lock until %d by its clock, which shows %d\n", now, 'a' + m, c + 1, node[m].expires,
		NODES_CLOCK(m))
}

proctype Master(byte m) {
	do
	:: d_step { executesAcquire(m, 0) }
	:: d_step { executesAcquire(m, 1) }
	:: d_step {
		node[m].extend == ON_THE_WIRE && node[m].acquire[0] != ON_THE_WIRE;	// requests keep their order
		if
		:: node[m].owner == 0 ->
			node[m].expires = NODES_CLOCK(m) + TTL;
			node[m].extend = YES;
			printf("%d: %c extends it until %d by its clock, which shows %d\n", now, 'a' + m, node[m].expires, NODES_CLOCK(m))
		:: else ->
			node[m].extend = VOID;
			printf("%d: %c does not extend it\n", now, 'a' + m)
		fi
	}
	od
}

proctype Clock() {
	do
	:: d_step {
		now < HORIZON && !decided && (now < TTL || BEGUN);	// later beginnings are like earlier ones
		now++;
		printf("%d: time goes on\n", now);
		// What time has made meaningless is dropped, so that like states are one.
		for (n : 0 .. NODES - 1) {
			if
			:: node[n].owner != NOBODY && node[n].expires <= NODES_CLOCK(n) ->
				node[n].owner = NOBODY;
				node[n].expires = 0
			:: else
			fi;
		}
		// A client that can win no more, or has lost its hold, breaks nothing, nor does the other one alone.
		for (i : 0 .. CLIENTS - 1) {
			if
			:: client[i].asks && !IN_TIME(i) || client[i].holds && !VALID(i) -> decided = true
			:: else
			fi
		}
		if
		:: decided ->
			for (n : 0 .. NODES - 1) {
				node[n].owner = NOBODY;
				node[n].expires = 0;
				node[n].acquire[0] = VOID;
				node[n].acquire[1] = VOID;
				node[n].extend = VOID
			}
			for (i : 0 .. CLIENTS - 1) {
				client[i].begun = 0;
				client[i].until = 0;
				client[i].asks = false;
				client[i].holds = false
			}
			asked = 0;
			now = 0
		:: else
		fi;
		n = 0;
		i = 0
	}
	od
}

init {
	atomic {
		// Spin tries the last process first, so the stories that it tells begin with a and client 1.
		run Clock();
		run Redlock(1); run Redlock(0);
		run Master(2); run Master(1); run Master(0)
	}
}
