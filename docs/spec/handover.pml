// The hand-over of a lock to a waiter: see handover.md.
//
// Modelled. Three masters that have refused the waiter, a holder that releases the lock or gives a ticket to the third
// client, and one more question of the waiter. The third client asks once, at any moment. Requests and messages are
// late or never come. A message that is late or lost is one that the waiter does not count, yet or ever: so a master's
// vote stands as soon as it is given, and only the moment of the decision is open.
// Bounds. TTL three, lease one, twice a TTL of time. When only one client can still have a valid hold, the model stops.
// Not modelled. Tokens; a waiter that gives up or is behind another one: its keys end with lease or TTL; masters that
// forget (guard.md); clocks that run differently (validity.md); readers.
//
// run: as it is | | holds in 600,000
// run: a ticket is adopted | -DADOPT | holds in 15,000
// run: counted from the message | -DFROM_MESSAGE | breaks exclusion in 10
// run: a lease counts as a TTL | -DNO_LEASE | breaks exclusion in 9
// run: any message counts from the last question | -DALL_HANDED | breaks exclusion in 10
// run: adopted from any holder | -DADOPT -DFROM_ANY | breaks exclusion in 12
// deep: as it is, TTL 4, lease 2 | -DTTL=4 -DLEASE=2 | holds in 2,000,000
// deep: a ticket is adopted, TTL 4, lease 2 | -DADOPT -DTTL=4 -DLEASE=2 | holds in 60,000

#ifndef TTL
#define TTL 3
#endif
#ifndef LEASE
#define LEASE 1
#endif
#define HORIZON (2 * TTL)
#define NODES 3
#define MAJORITY 2

#define HOLDER 0
#define WAITER 1
#define THIRD 2
#define CLIENTS 3
#define NOBODY CLIENTS

// What the waiter knows of a node.
#define NO 0
#define NOTIFIED 1	// the node has sent a message at some time since the waiter began to wait
#define HANDED 2	// it has sent a message after it had refused the last question
#define YES 3	// it has given the lock in answer to the last question

typedef Node {
	byte owner;
	byte expires;
	bool queued;	// the waiter is in its queue
	bool release;	// what is on the wire: the holder's release,
	bool question;	// the waiter's last question,
	bool request;	// the third client's request
	byte vote;	// for the waiter, as far as it knows
	bool third;	// for the third client
};

Node node[NODES];
byte now;
byte until[CLIENTS];	// a hold is valid until then
byte asked;	// when the waiter has asked last
byte questions;
byte begun;	// when the third client has asked
bool ended, waits = true, asks, comes = true;
bool decided;
byte n;	// what a step needs while it is taken; 0 in between

#define VALID(c) (now < until[c])
#define COUNT(v) ((node[0].vote >= v) + (node[1].vote >= v) + (node[2].vote >= v))
#define THIRDS (node[0].third + node[1].third + node[2].third)
#define SINCE 0	// when the waiter has begun to wait

#ifdef NO_LEASE
#define TERM TTL
#else
#define TERM LEASE
#endif
#ifdef FROM_MESSAGE
#define NOTIFIED_AT now
#elif defined(ALL_HANDED)
#define NOTIFIED_AT asked
#else
#define NOTIFIED_AT SINCE
#endif
// The end of the hold that the waiter's votes amount to.
#define END (COUNT(YES) >= MAJORITY -> asked + TTL : (COUNT(HANDED) >= MAJORITY -> asked + TERM : NOTIFIED_AT + TERM))

inline trusts(c) {
	printf(" and holds the lock until %d\n", until[c]);
	if
	:: VALID(HOLDER) + VALID(WAITER) + VALID(THIRD) > 1 ->
		printf("broken: exclusion: two holds are valid\n");
		assert(false)
	:: else
	fi
}

proctype Holder() {
	do
	:: d_step {
		!ended && VALID(HOLDER);
		ended = true;
		until[HOLDER] = 0;
#ifdef ADOPT
		printf("%d: the holder gives a ticket to the third client\n", now)
#else
		for (n : 0 .. NODES - 1) { node[n].release = true }
		n = 0;
		printf("%d: the holder releases the lock\n", now)
#endif
	}
	od
}

proctype Waiter() {
	do
	:: d_step {
		waits && questions < 1;
		questions++;
		asked = now;
		for (n : 0 .. NODES - 1) {
			node[n].question = true;
			node[n].vote = (node[n].vote == NO -> NO : NOTIFIED)
		}
		n = 0;
		printf("%d: the waiter asks every node again\n", now)
	}
	:: d_step {
		waits && COUNT(NOTIFIED) >= MAJORITY && now < END;
		waits = false;
		until[WAITER] = END;
		for (n : 0 .. NODES - 1) {
			node[n].vote = NO;
			node[n].queued = false;	// what it gets from now on only keeps others out
			node[n].question = false
		}
		n = 0;
		asked = 0;
		printf("%d: the waiter has a majority", now);
		trusts(WAITER)
	}
	od
}

proctype Third() {
	do
	:: d_step {
#ifdef ADOPT
		ended &&
#endif
		comes;
		comes = false;
		asks = true;
		begun = now;
		for (n : 0 .. NODES - 1) { node[n].request = true }
		n = 0;
		printf("%d: the third client asks every node\n", now)
	}
	:: d_step {
		asks && THIRDS >= MAJORITY && now < begun + TTL;
		asks = false;
		until[THIRD] = begun + TTL;
		for (n : 0 .. NODES - 1) { node[n].third = false }
		n = 0;
		begun = 0;
		printf("%d: the third client has a majority", now);
		trusts(THIRD)
	}
	od
}

#ifndef ADOPT
#define TAKES(n) (node[n].owner == NOBODY)
#elif defined(FROM_ANY)
#define TAKES(n) (node[n].owner != NOBODY)
#else
#define TAKES(n) (node[n].owner == HOLDER)
#endif

proctype Master(byte m) {
	do
	:: d_step {
		node[m].release && node[m].owner == HOLDER;	// anything else a release leaves alone
		node[m].release = false;
		if
		:: node[m].queued ->
			node[m].owner = WAITER;
			node[m].expires = now + LEASE;
			node[m].queued = false;
			node[m].vote = (node[m].question -> NOTIFIED : HANDED);
			printf("%d: %c hands the lock over until %d and sends a message\n", now, 'a' + m, node[m].expires)
		:: else ->
			node[m].owner = NOBODY;
			node[m].expires = 0;
			printf("%d: %c is free\n", now, 'a' + m)
		fi
	}
	:: d_step {
		node[m].question;
		node[m].question = false;
		if
		:: node[m].owner == WAITER || node[m].owner == NOBODY ->
			node[m].owner = WAITER;
			node[m].expires = now + TTL;
			node[m].queued = false;
			node[m].vote = YES;
			printf("%d: %c gives the waiter the lock until %d\n", now, 'a' + m, node[m].expires)
		:: else ->	// the waiter is still in the queue; a message from before is still one
			node[m].queued = true;
			printf("%d: %c refuses the waiter\n", now, 'a' + m)
		fi
	}
	:: d_step {
		node[m].request && TAKES(m);
		node[m].request = false;
		node[m].owner = THIRD;
		node[m].expires = now + TTL;
		node[m].third = asks;
		printf("%d: %c gives the third client the lock until %d\n", now, 'a' + m, node[m].expires)
	}
	od
}

proctype Clock() {
	do
	:: d_step {
		now < HORIZON && !decided;
		now++;
		printf("%d: time goes on\n", now);
		// What time has made meaningless is dropped, so that like states are one.
		for (n : 0 .. CLIENTS - 1) {
			if :: until[n] <= now -> until[n] = 0 :: else fi
		}
		if :: asks && now >= begun + TTL -> asks = false; begun = 0 :: else fi;
		// One client alone breaks nothing.
		decided = (VALID(HOLDER) + (waits || VALID(WAITER)) + (comes || asks || VALID(THIRD)) <= 1);
		for (n : 0 .. NODES - 1) {
			if :: decided || node[n].expires <= now -> node[n].owner = NOBODY; node[n].expires = 0 :: else fi;
			if :: decided || node[n].owner != HOLDER -> node[n].release = false :: else fi;
			if :: !asks -> node[n].third = false; node[n].request = false :: else fi;
			if :: decided -> node[n].vote = NO; node[n].queued = false; node[n].question = false :: else fi
		}
		if
		:: decided ->
			for (n : 0 .. CLIENTS - 1) { until[n] = 0 }
			waits = false;
			asks = false;
			comes = false;
			ended = true;
			begun = 0;
			asked = 0;
			questions = 0;
			now = HORIZON
		:: else
		fi;
		n = 0
	}
	od
}

init {
	atomic {
		// The holder has got the lock, and every node has refused the waiter and queued it.
		until[HOLDER] = TTL;
		for (n : 0 .. NODES - 1) {
			node[n].owner = HOLDER;
			node[n].expires = TTL;
			node[n].queued = true
		}
		n = 0;
		// Spin tries the last process first, so the stories that it tells begin with a.
		run Clock(); run Third(); run Waiter(); run Holder();
		run Master(2); run Master(1); run Master(0)
	}
}
