// The restart guard: see guard.md.
//
// Modelled. Three masters, two clients, one TTL of two ticks, and one clock. Requests arrive in any order, late, or
// never. One master may lose its data, at any moment: it is away for outage ticks, and abstains for guard more. An
// answer that was sent before stays valid, and a request that was on its way is lost with the connection.
// Bounds. Two TTLs of time, one loss, two clients. It is a that loses its data, and client 1 that begins, since masters
// and clients are alike. The runs are pairs of outage and guard at the limit.
// Not modelled. Clocks that run at different rates (validity.md); extensions; tokens; a majority that forgets within
// one guard, for which nothing is promised.
//
// run: TTL 2, outage 0, guard 0 | -DOUTAGE=0 -DGUARD=0 | breaks exclusion in 9
// run: TTL 2, outage 0, guard 1 | -DOUTAGE=0 -DGUARD=1 | breaks exclusion in 10
// run: TTL 2, outage 1, guard 0 | -DOUTAGE=1 -DGUARD=0 | breaks exclusion in 10
// run: TTL 2, outage 0, guard 2 | -DOUTAGE=0 -DGUARD=2 | holds in 50,000
// run: TTL 2, outage 1, guard 1 | -DOUTAGE=1 -DGUARD=1 | holds in 50,000
// run: TTL 2, outage 2, guard 0 | -DOUTAGE=2 -DGUARD=0 | holds in 50,000
// deep: TTL 2, outage 1, guard 2 | -DOUTAGE=1 -DGUARD=2 | holds in 50,000
// deep: TTL 2, outage 2, guard 1 | -DOUTAGE=2 -DGUARD=1 | holds in 50,000
// deep: TTL 2, outage 2, guard 2 | -DOUTAGE=2 -DGUARD=2 | holds in 50,000
// deep: TTL 3, outage 1, guard 1 | -DTTL=3 -DOUTAGE=1 -DGUARD=1 | breaks exclusion in 11
// deep: TTL 3, outage 1, guard 2 | -DTTL=3 -DOUTAGE=1 -DGUARD=2 | holds in 100,000
// deep: TTL 3, outage 3, guard 0 | -DTTL=3 -DOUTAGE=3 -DGUARD=0 | holds in 100,000

#ifndef TTL
#define TTL 2
#endif
#define HORIZON (2 * TTL)
#define NODES 3
#define MAJORITY 2
#define CLIENTS 2

#define NOBODY CLIENTS

// What became of a client's request at a node.
#define UNSENT 0
#define ON_THE_WIRE 1
#define GIVEN 2
#define VOID 3

typedef Node {
	byte owner = NOBODY;
	byte expires;	// the tick at which the key is gone
	byte up;	// down until this tick
	byte counts;	// its votes abstain until this tick
	byte vote[CLIENTS];
};

typedef Hold {
	byte begun;	// the tick at which the requests were sent
	bool won;
};

Node node[NODES];
Hold hold[CLIENTS];
byte now;
bool lost;
byte begun;

#define VALID(c) (now < hold[c].begun + TTL)
#define VOTED(n, c) (node[n].vote[c] == GIVEN)
#define VOTES(c) (VOTED(0, c) + VOTED(1, c) + VOTED(2, c))

proctype Client(byte c) {
	byte n;
	d_step {
		begun == c;	// clients are alike: they begin in order
		begun++;
		hold[c].begun = now;
		for (n : 0 .. NODES - 1) { node[n].vote[c] = ON_THE_WIRE }
		n = 0;
		printf("%d: client %d asks every node\n", now, c + 1)
	}
	d_step {
		VOTES(c) >= MAJORITY && VALID(c);
		hold[c].won = true;
		printf("%d: client %d has a majority: it holds the lock until %d\n", now, c + 1, hold[c].begun + TTL);
		if
		:: hold[1 - c].won && VALID(1 - c) -> printf("broken: exclusion: both holds are valid\n"); assert(false)
		:: else
		fi
	}
}

inline executes(n, c) {
	node[n].vote[c] == ON_THE_WIRE && now >= node[n].up && node[n].owner == NOBODY;
	node[n].owner = c;
	node[n].expires = now + TTL;
	if
	:: now < node[n].counts || !VALID(c) -> node[n].vote[c] = VOID
	:: else -> node[n].vote[c] = GIVEN
	fi;
	printf("%d: %c gives client %d the lock\n", now, 'a' + n, c + 1)
}

proctype Master(byte n) {
	byte c;
	do
	:: d_step { executes(n, 0) }
	:: d_step { executes(n, 1) }
	:: d_step {
		n == 0 && !lost;	// nodes are alike: it is the first that loses its data
		lost = true;
		node[n].owner = NOBODY;
		node[n].up = now + OUTAGE;
		node[n].counts = now + OUTAGE + GUARD;
		for (c : 0 .. CLIENTS - 1) {
			if
			:: node[n].vote[c] == ON_THE_WIRE -> node[n].vote[c] = VOID
			:: else	// the client has the vote, whatever becomes of the node
			fi
		}
		c = 0;
		printf("%d: %c loses its data, is back at %d, and abstains until %d\n", now, 'a' + n, node[n].up, node[n].counts)
	}
	od
}

proctype Clock() {
	byte n, c;
	do
	:: d_step {
		now < HORIZON;
		now++;
		printf("%d: time goes on\n", now);
		// What time has made meaningless is dropped, so that like states are one.
		for (n : 0 .. NODES - 1) {
			if :: node[n].owner != NOBODY && node[n].expires <= now -> node[n].owner = NOBODY; node[n].expires = 0 :: else fi;
			if :: node[n].up <= now -> node[n].up = 0 :: else fi;
			if :: node[n].counts <= now -> node[n].counts = 0 :: else fi;
			for (c : 0 .. CLIENTS - 1) {
				if :: node[n].vote[c] == GIVEN && !VALID(c) -> node[n].vote[c] = VOID :: else fi
			}
		}
		n = 0;
		c = 0
	}
	od
}

init {
	atomic {
		// Spin tries the last process first, so the stories that it tells begin with a and client 1.
		run Clock();
		run Client(1); run Client(0);
		run Master(2); run Master(1); run Master(0)
	}
}
