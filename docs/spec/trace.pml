// Is a history of the library one of the model's? See trace.md. What nodes did and clients concluded comes over a
// channel, in the order in which it happened; each message is a step, which the model takes by the inlines of node.pml,
// and compares what it comes to with what was recorded. spin trace.pml ends with "the model takes all steps", or with
// the assertion that the history breaks.

#define OWNER short
#define TOKEN int
#define FLOOR dropped
#define DISOWNED(entry) (entry == 0 -> 0 : entry | 1)	// half a step above what it was
#define NOW clock
#define UNTIL (clock + ttl + 1)	// Redis keeps a key through its last millisecond

int clock, ttl;	// of the node whose step it is, in ms
int dropped;	// the floor of that node, for steps that look at it
#include "node.pml"

mtype = {
	ACQUIRE, ACQUIRE_OR_JOIN, ASK_AGAIN, ENQUEUE, RAISE, EXTEND, RELEASE, LEAVE, HAND_OVER, PASS_OVER, TRIM, LOSE, RESTART,
	HOLD, END
};

// what happened; where; when, in ms; what the node's clock showed; who asked; the token; the TTL that the key has now;
// what was answered, as the scripts' comments say; the token or the owner in the answer; what the node has behind it,
// and its floor.
chan step = [0] of { mtype, byte, int, int, short, int, int, byte, int, short, int, int };

typedef Votes { int by[OWNERS] };	// the token that a node has accepted of an owner to whom it has given the lock
Votes votes[NODES];
typedef Waits { bool by[OWNERS] };	// who waits in the node's queue
Waits waits[NODES];
bool lost[NODES];	// it has lost its data, and not been started since
int counts[NODES];	// from when on its votes count
int largest;	// token of a hold

// What a node answered to a question for the lock: 0, taken by another; 1, given, token accepted; 2, given, but a
// token is known that is not smaller. A node that has lost its data does not vote until the guard is over.
inline vote() {
	code = (given -> (accepted -> 1 : 2) : 0);
	if
	:: said == 0 && holder != NOBODY -> assert(other == holder)
	:: said == 2 -> assert(other == known)
	:: else
	fi;
	if
	:: code == 0 -> votes[n].by[asker] = 0
	:: code == 1 -> votes[n].by[asker] = (at >= counts[n] -> mine : 0)
	:: else	// where known is its own, it has been accepted before
	fi
}

active proctype Model() {
	mtype what;
	byte n, said, code, supporters, keepers;
	short asker, has;
	int at, mine, other, entry, taken;
	do
	:: step?what,n,at,clock,asker,mine,ttl,said,other,has,entry,dropped;
		if
		:: what == END -> break
		:: else
		fi;
		d_step {
			taken++;
			printf("%d\n", taken);
			code = said;
			if
			:: what == ACQUIRE -> acquire(n, asker, mine); vote()
			:: what == ACQUIRE_OR_JOIN -> acquire(n, asker, mine); vote(); waits[n].by[asker] = !given
			:: what == ASK_AGAIN ->
				confirm(n, asker, mine);
				if :: given && !accepted -> node[n].entry = DISOWNED(node[n].entry) :: else fi;
				vote()
			:: what == ENQUEUE -> confirm(n, asker, mine); vote(); waits[n].by[asker] = !given
			:: what == RAISE ->
				raise(n, asker, mine);
				code = (given -> (accepted -> 1 : 2) : 0);
				if :: code == 1 && at >= counts[n] -> votes[n].by[asker] = mine :: else fi
			:: what == EXTEND ->
				extend(n, asker, mine);
				code = (given -> (holder == asker -> 1 : 2) : 0)
			:: what == RELEASE || what == LEAVE ->
				release(n, asker, mine);
				code = (given -> 1 : (holder == NOBODY -> 0 : 2));
				if :: what == LEAVE -> waits[n].by[asker] = false :: else fi
			:: what == HAND_OVER ->
				assert(waits[n].by[asker]);
				hand_over(n, NOBODY, asker, mine);
				assert(given);
				waits[n].by[asker] = false;
				votes[n].by[asker] = (accepted && at >= counts[n] -> mine : 0)
			:: what == PASS_OVER ->
				assert(asker == NOBODY || waits[n].by[asker]);
				waits[n].by[asker] = false;
				finds(n);
				propose_anew(n, mine);
				if :: asker == NOBODY -> node[n].entry = DISOWNED(node[n].entry) :: else fi
			:: what == TRIM ->
				finds(n);
				node[n].entry = 0
			:: what == LOSE -> lose(n, 0); lost[n] = true
			:: what == RESTART ->
				if :: lost[n] -> counts[n] = at + GUARD :: else fi;
				lost[n] = false
			:: what == HOLD ->
				supporters = 0;
				keepers = 0;
				for (n : 0 .. NODES - 1) {
					supporters = supporters + (votes[n].by[asker] == mine);
					keepers = keepers + (node[n].owner == asker || lost[n] || at < counts[n])
				}
				assert(supporters >= MAJORITY);
				assert(keepers >= MAJORITY);
				assert(mine > largest);
				largest = mine
			fi;
			assert(code == said);
			assert(what == HOLD || what == RESTART || node[n].owner == has);
			assert(what == HOLD || what == RESTART || node[n].entry == entry);
			heard()
		}
	od;
	printf("the model takes all steps\n")
}

#include "history.pml"
