// A semaphore: see permits.md.
//
// Modelled. Three masters, three clients, each with one attempt. Requests arrive late or never; a client gives up,
// releases or crashes, and is gone from each master at some time after that.
// Not modelled. Time and restarts: a slot is a lock, so validity.md and guard.md say what they do. Asking for another
// slot afterwards.
//
// run: two slots | -DPLACES=2 -DEACH=1 | holds in 200,000
// run: a counter of two on each node | -DPLACES=1 -DEACH=2 | breaks crowded in 12
// deep: a counter of three on each node | -DPLACES=1 -DEACH=3 -DCLIENTS=4 | breaks crowded in 16

#ifndef CLIENTS
#define CLIENTS 3
#endif
#define NODES 3
#define MAJORITY 2

// How far a client has come.
#define IDLE 0
#define ASKS 1
#define HOLDS 2
#define ENDED 3

typedef Place {
	byte in;	// who is in, a bit for each client
	byte asked;	// whose request is on the wire
};

typedef Node {
	Place place[PLACES];
};

typedef Client {
	byte phase;
	byte place;
};

Node node[NODES];
Client client[CLIENTS];
byte holders;

#define IN(n, c, p) (node[n].place[p].in >> c & 1)
#define VOTES(c, p) (IN(0, c, p) + IN(1, c, p) + IN(2, c, p))
#define SIZE(set) ((set & 1) + (set >> 1 & 1) + (set >> 2 & 1) + (set >> 3 & 1))

inline asks(c, p) {
	p < PLACES && client[c].phase == IDLE && (c == 0 || client[c - 1].phase != IDLE);	// clients are alike
	client[c].phase = ASKS;
	client[c].place = p;
	node[0].place[p].asked = node[0].place[p].asked | 1 << c;
	node[1].place[p].asked = node[1].place[p].asked | 1 << c;
	node[2].place[p].asked = node[2].place[p].asked | 1 << c;
	printf("client %d asks every node for place %d\n", c + 1, p + 1)
}

proctype Redlock(byte c) {
	do
	:: d_step { asks(c, 0) }
#if PLACES > 1
	:: d_step { asks(c, 1) }
#endif
	:: d_step {
		client[c].phase == ASKS && VOTES(c, client[c].place) >= MAJORITY;
		client[c].phase = HOLDS;
		holders++;
		printf("client %d has a majority: it holds a permit\n", c + 1);
		if
		:: holders > PLACES * EACH ->
			printf("broken: crowded: %d holders of %d permits\n", holders, PLACES * EACH);
			assert(false)
		:: else
		fi
	}
	:: d_step {
		client[c].phase == ASKS || client[c].phase == HOLDS;
		if :: client[c].phase == HOLDS -> holders-- :: else fi;
		client[c].phase = ENDED;
		printf("client %d gives up, releases its permit or crashes\n", c + 1)
	}
	od
}

inline executes(n, c, p) {
	p < PLACES && node[n].place[p].asked >> c & 1 && SIZE(node[n].place[p].in) < EACH;
	node[n].place[p].asked = node[n].place[p].asked & ~(1 << c);
	node[n].place[p].in = node[n].place[p].in | 1 << c;
	printf("%c lets client %d in\n", 'a' + n, c + 1)
}

// By the undo, the release or the TTL.
inline leaves(n, c, p) {
	p < PLACES && IN(n, c, p) && client[c].phase == ENDED;
	node[n].place[p].in = node[n].place[p].in & ~(1 << c);
	printf("client %d is gone from %c\n", c + 1, 'a' + n)
}

proctype Master(byte n) {
	do
	:: d_step { executes(n, 0, 0) }
	:: d_step { executes(n, 1, 0) }
	:: d_step { executes(n, 2, 0) }
	:: d_step { leaves(n, 0, 0) }
	:: d_step { leaves(n, 1, 0) }
	:: d_step { leaves(n, 2, 0) }
#if CLIENTS > 3
	:: d_step { executes(n, 3, 0) }
	:: d_step { leaves(n, 3, 0) }
#endif
#if PLACES > 1
	:: d_step { executes(n, 0, 1) }
	:: d_step { executes(n, 1, 1) }
	:: d_step { executes(n, 2, 1) }
	:: d_step { leaves(n, 0, 1) }
	:: d_step { leaves(n, 1, 1) }
	:: d_step { leaves(n, 2, 1) }
#endif
	od
}

init {
	atomic {
		// Spin tries the last process first, so the stories that it tells begin with a and client 1.
#if CLIENTS > 3
		run Redlock(3);
#endif
		run Redlock(2); run Redlock(1); run Redlock(0);
		run Master(2); run Master(1); run Master(0)
	}
}
