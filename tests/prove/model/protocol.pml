/*
 * Who may start a job: the protocol between nodes, callers and a store, small enough to look at every course of events.
 *
 * One shard of a store holds the jobs. Nodes want to own it, one at a time: the owner brings pending jobs into memory,
 * claims them (counts an attempt in the store), starts them, and settles them (takes them out of the store). Callers
 * set jobs, and one of them cancels. At any moment, but once each, a node is restarted in place, and a node is paused
 * for as long as one likes.
 *
 * Three things must hold, whatever the order of steps:
 *
 *   1. One start for each attempt, and none under an epoch that is over. (An attempt whose node died is followed by
 *      another one, which has another number: "at least once".)
 *   2. No start after "cancelled" was answered, and no "too late" before the start.
 *   3. In the end every job was started and settled, or was cancelled.
 *
 * The first two are assertions where a job starts and where a caller is answered. The third is one for the moment when
 * nothing can happen any more, which comes in every course of events, because the states form no circle.
 *
 * What keeps them: a life has a name of its own; a takeover raises the epoch and rescues what was claimed; every write
 * and every note taken is fenced by the epoch; a lease is trusted no longer than the store grants it; the owner looks
 * for what no note told it; start and withdrawal of an attempt exclude each other. Each can be switched off, to see
 * that the model finds what comes of it (see FAULTS in protocol_model.py).
 *
 * A d_step is one transaction of the store, or one step under a lock of a node: nothing comes between its lines.
 */

#define NODES 2
#define JOBS  2

#ifdef NAMED_BY_HOST              /* fault: a restarted node bears the name of its former life */
#define NAME(node) (1 + node)
#else
#define NAME(node) (1 + node + NODES * life[node])
#endif
#define NOBODY 0

/* The store. */
mtype = { ABSENT, PENDING, RUNNING, GONE };       /* of a job; running means claimed, whether or not it has started */
mtype = { NOTHING, ASKED, STARTED };              /* what a caller left for the owner, and the owner's answer */

byte  owner = NOBODY;             /* who holds the lease, by name */
byte  epoch = 0;                  /* raised by every takeover */
bool  is_expired = false;         /* the lease has run out, by the store's clock */
mtype state[JOBS] = ABSENT;
byte  attempt[JOBS] = 0;
bool  note[JOBS] = false;         /* "this was set": for the owner, which was not notified */
mtype question[JOBS] = NOTHING;   /* "has this started? if not, give it back" */
bool  rests[JOBS] = false;        /* given back for a caller, whose write comes before the next claim */

/* The nodes' memory, which a restart clears; of the lives, the world's count. */
#define FAR       0               /* not in memory */
#define NEAR      1
#define CLAIMED   2               /* waits for its instant, or for a worker */
#define WITHDRAWN 3               /* for a caller who asked */
#define UNDER_WAY 4               /* in its handler's hands */
typedef Memory {
    byte  epoch;                  /* of the lease that it believes it holds; 0 for none */
    bool  is_trusted;             /* by its own clock, which runs a little ahead of the store's */
    bool  has_looked;             /* what was pending at the takeover is near */
    byte  stage[JOBS];
    byte  attempt[JOBS]           /* the number of the attempt that it claimed */
}
Memory memory[NODES];
byte  life[NODES] = 0;
bool  is_down[NODES] = false;
bool  is_paused[NODES] = false;

/* What the world has seen, for the assertions. */
bool  has_started[JOBS] = false;
byte  last_start[JOBS] = 0;       /* the number of the last attempt that started */
bool  is_cancelled[JOBS] = false; /* and the caller got this answer */

#define me      memory[node]
#define awake   (!is_down[node] && !is_paused[node])
#define owning  (awake && me.epoch != 0)
#define fenced  (owner == NAME(node) && epoch == me.epoch)
#define is_orphaned (owner != NOBODY && (owner - 1) % NODES == node && (is_down[node] || owner != NAME(node)))

#ifdef UNFENCED_WRITES            /* fault: the store takes what a former owner writes */
#define may_write true
#else
#define may_write fenced
#endif
#define may_settle (may_write && state[j] == RUNNING && attempt[j] == me.attempt[j])
#ifdef UNFENCED_NOTES             /* fault: a node that believes it owns the shard takes its notes */
#define may_take true
#else
#define may_take fenced
#endif
#ifdef UNTRUSTED_START            /* fault: a start does not ask for the lease */
#define may_start true
#else
#define may_start me.is_trusted
#endif

/* Bring a job near, if it is pending. */
inline bring(job) {
    if
    :: state[job] == PENDING && me.stage[job] == FAR -> me.stage[job] = NEAR
    :: else
    fi
}

/* Let go of everything. A handler that is under way goes on, and nobody waits for its end: its settle would be refused. */
inline forget() {
    me.epoch = 0;
    me.is_trusted = false;
    me.has_looked = false;
    j = 0;
    do
    :: j < JOBS -> me.stage[j] = FAR; j++
    :: else -> break
    od;
    j = 0
}

inline take_over() {
    forget();
    epoch++;
    owner = NAME(node);
    is_expired = false;
    me.epoch = epoch;
    me.is_trusted = true;
    j = 0;
    do
    :: j < JOBS ->                /* rescue: what the former owner claimed and did not settle is pending again */
           if
           :: state[j] == RUNNING -> state[j] = PENDING
           :: else
           fi;
           note[j] = false;       /* the first look will find it */
           if
           :: question[j] == STARTED -> question[j] = NOTHING
           :: else
           fi;
           j++
    :: else -> break
    od;
    j = 0
}

inline begin(job) {
    assert(epoch == me.epoch);                        /* 1: under the epoch that is */
    assert(me.attempt[job] > last_start[job]);        /* 1: once for each attempt */
    assert(!is_cancelled[job]);                       /* 2 */
    last_start[job] = me.attempt[job];
    has_started[job] = true;
    me.stage[job] = UNDER_WAY
}

/* What a node does about its lease. */
proctype Lease(byte node) {
    byte j;
end:
    do
    :: d_step { awake && me.epoch == 0 && (owner == NOBODY || is_expired) -> take_over() }
    :: d_step { awake && me.epoch == 0 && owner == NAME(node) && !is_expired ->
           me.epoch = epoch;      /* it finds the shard to be its own: only if its former life bore its name */
           me.is_trusted = true }
    :: d_step { owning && !me.is_trusted && fenced && !is_expired -> me.is_trusted = true }       /* renewed */
    :: d_step { owning && !me.is_trusted && (!fenced || is_expired) -> forget() }   /* lost */
    :: d_step { owning && !me.has_looked ->                                                      /* the first look */
           j = 0;
           do
           :: j < JOBS -> bring(j); j++
           :: else -> break
           od;
           j = 0;
           me.has_looked = true }
    od
}

/* What a node does about one job, from its store to its end. */
proctype Work(byte node; byte j) {
end:
    do
    /* From the store into memory: what a note reports, and what the look back finds overdue. */
    :: d_step { owning && me.has_looked && note[j] && may_take -> note[j] = false; bring(j) }
#ifndef NO_LOOK_BACK
    :: d_step { owning && me.has_looked && me.is_trusted && state[j] == PENDING && me.stage[j] == FAR && !rests[j] ->
           bring(j) }
#endif

    /* Claim: one write, which counts the attempt if the job is still pending and the epoch is the shard's. */
    :: d_step { owning && me.stage[j] == NEAR && !rests[j] ->
           if
           :: may_write && state[j] == PENDING ->
                  state[j] = RUNNING;
                  attempt[j]++;
                  me.attempt[j] = attempt[j];
                  me.stage[j] = CLAIMED
           :: else -> me.stage[j] = FAR
           fi }

    /* The last check, and the start. Between claim and start the job may wait for a worker as long as it likes. */
    :: d_step { awake && me.epoch != 0 && me.stage[j] == CLAIMED && may_start -> begin(j) }
#ifdef NO_LAST_CHECK              /* fault: what was withdrawn in the store is on its way to a worker, and starts */
    :: d_step { awake && me.epoch != 0 && me.stage[j] == WITHDRAWN && may_start -> begin(j) }
#endif

    /* Settle: one write. A job whose owner has changed is not settled by the old one: the new one has rescued it. */
    :: d_step { awake && me.stage[j] == UNDER_WAY ->
           if
           :: may_settle -> state[j] = GONE
           :: else
           fi;
           me.stage[j] = FAR }

    /* The word on an attempt that a caller wants to cancel: withdrawn from memory first, then given back. */
    :: d_step { owning && fenced && question[j] == ASKED && me.stage[j] == UNDER_WAY -> question[j] = STARTED }
    :: d_step { owning && fenced && question[j] == ASKED && me.stage[j] == CLAIMED -> me.stage[j] = WITHDRAWN }
    :: d_step { owning && me.stage[j] == WITHDRAWN ->
           if
           :: may_settle ->
                  state[j] = PENDING;
                  attempt[j]--;   /* its number never started */
                  rests[j] = (question[j] == ASKED);
                  question[j] = NOTHING
           :: else
           fi;
#ifndef NO_LAST_CHECK
           me.stage[j] = FAR
#else
           skip
#endif
       }
    od
}

/* Somebody sets a job, from elsewhere: the owner has to hear of it. */
proctype Setter(byte j) {
    d_step { state[j] = PENDING; note[j] = true }
}

/* Somebody cancels a job, from elsewhere. What is claimed needs the owner's word. */
proctype Canceller(byte j) {
    state[j] != ABSENT;
    do
    :: d_step { state[j] == PENDING -> state[j] = GONE; rests[j] = false; is_cancelled[j] = true } -> break
    :: d_step { state[j] == GONE -> skip } -> break                                     /* answered: there is none */
    :: d_step { state[j] == RUNNING && question[j] == STARTED -> assert(has_started[j]) } -> break  /* 2: too late */
#ifdef CLAIMED_IS_TOO_LATE        /* fault: what waits for a worker is taken for running */
    :: d_step { state[j] == RUNNING -> assert(has_started[j]) } -> break
#endif
    :: d_step { state[j] == RUNNING && question[j] == NOTHING -> question[j] = ASKED }
    od;
    question[j] = NOTHING
}

/* A node is killed, and started again in its place: memory is lost, and what was under way with it. */
proctype Restart() {
    byte node = 0, j;             /* which one does not matter: the nodes are alike until here */
    if
    :: skip
    :: goto done                  /* or none is */
    fi;
    d_step { is_down[node] = true; forget() }
    d_step { life[node]++; is_down[node] = false }
done:
    skip
}

/* A node is paused, for as short or long as one likes, and goes on with the memory that it had. */
proctype Pause() {
    byte node;
    if
    :: node = 0
    :: node = 1
    :: goto done
    fi;
    is_paused[node] = true;
    is_paused[node] = false;
done:
    skip
}

/* Time. A lease that is not renewed ends for its node first, on a clock that no pause stops, and then for the store. */
proctype Clock(byte node) {
end:
    do
    :: d_step { is_paused[node] && me.epoch != 0 && me.is_trusted -> me.is_trusted = false }
    :: d_step { is_paused[node] && fenced && !me.is_trusted && !is_expired -> is_expired = true }
    :: d_step { is_orphaned && !is_expired -> is_expired = true }
    od
}

/* 3. Nothing can happen any more. */
proctype End() {
    byte j;
    timeout ->
    j = 0;
    do
    :: j < JOBS ->
           assert(state[j] == GONE);
           assert(has_started[j] || is_cancelled[j]);
           j++
    :: else -> break
    od
}

init {
    byte i;
    atomic {
        i = 0;
        do
        :: i < NODES -> run Lease(i); run Work(i, 0); run Work(i, 1); run Clock(i); i++
        :: else -> break
        od;
        run Setter(0); run Setter(1); run Canceller(0);
        run Restart(); run Pause(); run End()
    }
}
