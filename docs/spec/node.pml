// What one Redis master does with one lock name: the scripts of internal/lua as inlines, for models to include. Each is
// one atomic step of the master's; call it inside d_step. It is deterministic: what the master answers follows from what
// it has. What the answers mean to a client is not here.
//
// An includer may define
//
//	NODES	how many masters (3)
//	OWNER	the type of owners (byte); NOBODY is 0
//	TOKEN	the type of tokens (byte); 0 is no token
//	FLOOR	the largest token that the master has dropped, as far as the script looks at it (0: it does not)
//	DISOWNED	what becomes of an entry where the lock goes to an owner whose token is not accepted (it stays)
//	NOW	the time. Then a key is gone at the time that UNTIL was when it was set or extended. Without NOW, keys stay
//		until the model calls goes(n), which it may do at any moment.

#ifndef NODES
#define NODES 3
#endif
#define MAJORITY (NODES / 2 + 1)
#ifndef OWNER
#define OWNER byte
#endif
#define NOBODY 0
#ifndef TOKEN
#define TOKEN byte
#endif
#ifndef DISOWNED
#define DISOWNED(entry) entry
#endif
#ifndef FLOOR
#define FLOOR 0
#endif

typedef Node {
	OWNER owner;	// the lock key's value
	TOKEN entry;	// the name's score in the set of tokens: the largest that the node has accepted
#ifdef NOW
	int expires;	// the key is gone at this time
#endif
};
Node node[NODES];

// What the node answers. A model reads it in the d_step that called the inline, and then calls heard(), so that past
// answers make no two states of one.
bool given;	// the lock is the caller's now; of a release: it was
bool accepted;	// the node has accepted the token
TOKEN known;	// its entry after that, or the floor, if the token is not above it
OWNER holder;	// whose the lock was before: NOBODY, the caller or another

inline heard() {
	given = false;
	accepted = false;
	known = 0;
	holder = NOBODY
}

// The key goes: it has expired, or somebody has deleted it.
inline goes(n) {
	node[n].owner = NOBODY;
#ifdef NOW
	node[n].expires = 0
#endif
}

// Every script begins so: it finds the key, or finds that it has expired.
inline finds(n) {
#ifdef NOW
	if :: node[n].owner != NOBODY && NOW >= node[n].expires -> goes(n) :: else fi;
#endif
	holder = node[n].owner;
	given = false;
	accepted = false
}

// SET key owner PX ttl, or PEXPIRE.
inline gives(n, who) {
	node[n].owner = who;
#ifdef NOW
	node[n].expires = UNTIL;
#endif
	given = true
}

// ZADD tokens GT CH token key, then ZSCORE: what is equal is not accepted. Token 0 is that of a client that wants none.
inline propose(n, number) {
	if
	:: number > node[n].entry && number > FLOOR -> node[n].entry = number; accepted = true
	:: else -> accepted = (number == 0)
	fi;
	known = (number != 0 && number <= FLOOR && node[n].entry < FLOOR -> FLOOR : node[n].entry)
}

// The same for an owner to which the lock is new: what is known and larger is another's.
inline propose_anew(n, number) {
	propose(n, number);
	if :: !accepted -> node[n].entry = DISOWNED(node[n].entry) :: else fi
}

// acquire.lua: a lock that is free, and a token. A caller that is refused changes nothing.
inline acquire(n, who, number) {
	finds(n);
	if :: holder == NOBODY -> gives(n, who); propose_anew(n, number) :: else -> known = node[n].entry fi
}

// enqueue.lua, and the second question of one that asks again: also a lock that is the caller's already.
inline confirm(n, who, number) {
	finds(n);
	if
	:: holder == NOBODY -> gives(n, who); propose_anew(n, number)
	:: holder == who -> gives(n, who); propose(n, number)
	:: else -> known = node[n].entry
	fi
}

// adopt.lua: only a lock that is the former owner's.
inline adopt(n, who, former, number) {
	finds(n);
	if :: holder == former -> gives(n, who); propose_anew(n, number) :: else -> known = node[n].entry fi
}

// raise.lua: a larger token for a lock that is the caller's.
inline raise(n, who, number) {
	finds(n);
	if :: holder == who -> given = true; propose(n, number) :: else -> known = node[n].entry fi
}

// extend.lua: another TTL for a lock that is the caller's. One that is gone is set again, unless a larger token shows
// that somebody else has had it: then given, and holder is NOBODY.
inline extend(n, who, number) {
	finds(n);
	if
	:: holder == who -> gives(n, who); known = node[n].entry
	:: holder == NOBODY && (number == 0 || node[n].entry <= number) -> gives(n, who); propose(n, number)
	:: else -> known = node[n].entry
	fi
}

// release.lua. above is a token that is known from now on unless the lock is another's, or 0: none.
inline release(n, who, above) {
	finds(n);
	if :: above != 0 && (holder == who || holder == NOBODY) -> propose(n, above) :: else -> known = node[n].entry fi;
	given = (holder == who);
	if :: given -> goes(n) :: else fi
}

// release.lua where somebody waits: the first in the queue gets the lock, and the token of its place is proposed.
inline hand_over(n, who, heir, number) {
	finds(n);
	if :: holder == who -> gives(n, heir); propose_anew(n, number) :: else -> known = node[n].entry fi
}

// The node restarts without its data (old is 0), or with an old copy in which the name's entry is old.
inline lose(n, old) {
	goes(n);
	node[n].entry = old
}

// trim.lua: entries below the oldest that the retention covers go.
inline trim(n, oldest) {
	if :: node[n].entry < oldest -> node[n].entry = 0 :: else fi
}
