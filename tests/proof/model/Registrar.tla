----------------------------- MODULE Registrar -----------------------------
(* Nodes that write one partition of Kafka: claim, fence, hand-over, read barrier, and a log that is cut.  *)
(* docs/proof.md says what of the code each action stands for, and which assumptions on Kafka it makes.     *)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Nodes,
    Producers,  \* How many producer ids the coordinator may give, one after another.
    Epochs,     \* How many epochs of each.
    SentMax,    \* How many records are sent at most.
    CutsMax,    \* How often the log loses its end.
    Readers,    \* Clients that read; with none, nothing need be acknowledged either.
    Broken      \* The rules that are left out, to show that each is needed; none in the protocol.

VARIABLES
    log,      \* The partition's records.
    high,     \* Its high watermark: so many of them have enough replicas, and may be read.
    granted,  \* The coordinator's last claim: a producer and its epoch.
    network,  \* Records on their way to the partition, which may arrive late, or never.
    sent,     \* How many records were ever sent, or appended by a fence.
    term,     \* The partition's leader epoch; it grows when the log is cut.
    node,     \* What each node knows.
    acked,    \* Serial numbers of records whose effect was acknowledged or shown.
    reads     \* Confirmed reads in progress.

vars == <<log, high, granted, network, sent, term, node, acked, reads>>

Nobody == <<0, -1>>
Min(a, b) == IF a < b THEN a ELSE b
Range(s) == {s[i] : i \in 1..Len(s)}
Serials(s) == {s[i].serial : i \in 1..Len(s)}
IsPrefix(s, t) == Len(s) <= Len(t) /\ SubSeq(t, 1, Len(s)) = s
Ids(s) == UNION {s[i].ids : i \in 1..Len(s)}
MaxId(s) == IF Ids(s) = {} THEN 0 ELSE CHOOSE i \in Ids(s) : \A j \in Ids(s) : j <= i

(* What brokers do. *)

Written(claim) == Cardinality({i \in 1..Len(log) : log[i].claim = claim})
Epoch(producer) ==
    LET found == {log[i].claim[2] : i \in {j \in 1..Len(log) : log[j].claim[1] = producer}}
    IN IF found = {} THEN -1 ELSE CHOOSE e \in found : \A f \in found : f <= e

\* The newest epoch of a producer in the log ends the older ones, and a batch comes once, in its turn.
Accepted(m) ==
    /\ "fence" \in Broken \/ m.claim[2] >= Epoch(m.claim[1])
    /\ "sequence" \in Broken \/ m.turn = Written(m.claim)

\* Brokers know a batch by its claim and its turn, not by its content or its sender: another one of the same claim and
\* turn is answered as if it had been appended. The first batch of an epoch has two senders: the node that got this
\* epoch sends its barrier, and whoever fences the epoch before sends a no-op.
Twin(m) == CHOOSE i \in 1..Len(log) :
    log[i].claim = m.claim /\ Cardinality({j \in 1..i : log[j].claim = m.claim}) = m.turn + 1
HasTwin(m) == m.claim[2] = Epoch(m.claim[1]) /\ m.turn < Written(m.claim)

(* What nodes know. *)

Fresh == [stage |-> "following", claim |-> Nobody, store |-> <<>>, term |-> 0]
Barriers(s) == {i \in 1..Len(s) : s[i].kind = "barrier"}
Newest(s) == IF Barriers(s) = {} THEN 0 ELSE CHOOSE i \in Barriers(s) : \A j \in Barriers(s) : j <= i

\* A node uses the log only after it has compared its store with it in the present leader epoch.
Attached(n) == node[n].term = term /\ node[n].stage # "apart"
\* How many batches in its claim's name a node has read; the next one of its own is numbered accordingly.
Applied(n) == Cardinality({i \in 1..Len(node[n].store) : node[n].store[i].claim = node[n].claim})
Record(n, kind, ids) ==
    [serial |-> sent + 1, claim |-> node[n].claim, kind |-> kind, ids |-> ids,
     turn |-> Applied(n), since |-> Len(node[n].store)]

\* Claims of other producers that this node has to end. A barrier says up to where its node had read the log when
\* it sent it, and had ended what it found: so the newest barrier, and those between that place and it, remain.
Others(n) ==
    LET store == node[n].store
        newest == Newest(store)
        since == IF "gap" \in Broken /\ store[newest].claim # node[n].claim
                 THEN newest - 1 ELSE store[newest].since
    IN  {store[i].claim : i \in {j \in Barriers(store) :
            j > since /\ store[j].claim[1] # node[n].claim[1]}}
Ended(claim) == Epoch(claim[1]) > claim[2]

Init ==
    /\ log = <<>> /\ high = 0 /\ granted = Nobody /\ network = {} /\ sent = 0 /\ term = 0
    /\ node = [n \in Nodes |-> Fresh] /\ acked = {} /\ reads = {}

(* Claim and hand-over. *)

Claims == {<<granted[1], granted[2] + 1>>, <<granted[1] + 1, 0>>}
Possible(claim) == claim[1] \in 1..Producers /\ claim[2] < Epochs

\* A node that believes to be elected claims; any node may, at any time, since safety must not depend on elections.
Claim(n, claim) ==
    /\ claim \in Claims /\ Attached(n)
    /\ granted' = claim
    /\ node' = [node EXCEPT ![n].stage = "claiming", ![n].claim = claim]
    /\ UNCHANGED <<log, high, network, sent, term, acked, reads>>

\* The answer is lost, or the node that asked.
LoseClaim(claim) ==
    /\ claim \in Claims
    /\ granted' = claim
    /\ UNCHANGED <<log, high, network, sent, term, node, acked, reads>>

\* The claim of another producer is ended by a record in its name, of the next epoch.
FenceOf(claim) == [serial |-> sent + 1, claim |-> <<claim[1], claim[2] + 1>>, kind |-> "no-op", ids |-> {},
                   turn |-> 0, since |-> 0]
Fence(claim) ==
    LET m == FenceOf(claim)
    IN  /\ Accepted(m) /\ claim \in {log[i].claim : i \in Barriers(log)}
        /\ log' = Append(log, m) /\ sent' = sent + 1
        /\ UNCHANGED <<high, granted, network, term, node, acked, reads>>

FenceOthers(n) ==
    /\ node[n].stage = "claiming" /\ Attached(n)
    /\ \E claim \in Others(n) : ~Ended(claim) /\ Fence(claim)

Send(n, m) == network' = network \cup {m} /\ sent' = sent + 1 /\ UNCHANGED <<log, high, granted, term, acked, reads>>
OnItsWay(n) == \E m \in network : m.claim = node[n].claim /\ m.turn >= Written(m.claim)
IsNewest(n) == Newest(node[n].store) > 0 /\ node[n].store[Newest(node[n].store)].claim = node[n].claim

\* Sent after the claims of other producers were ended. It is sent again if more of them stand before it. The node
\* cannot know that its epoch was fenced before it has read that.
SendBarrier(n) ==
    /\ node[n].stage = "claiming" /\ Attached(n) /\ ~OnItsWay(n)
    /\ IF Applied(n) = 0 THEN node[n].claim \notin {log[i].claim : i \in Barriers(log)}
                         ELSE Applied(n) = Written(node[n].claim) /\ IsNewest(n)
    /\ "former" \in Broken \/ \A claim \in Others(n) : Ended(claim)
    /\ Send(n, Record(n, "barrier", {}))
    /\ UNCHANGED node

\* A node whose batch has a twin in the log is told that it was appended. It reads the log, so there is no step for
\* that. Without this rule it reads what it sent: its barrier where the log has a fence, or the other way round.
ReadSent(n, m) ==
    /\ "own" \in Broken /\ Attached(n) /\ HasTwin(m) /\ Twin(m) = Len(node[n].store) + 1 /\ Twin(m) <= high
    /\ node' = [node EXCEPT ![n].store = Append(@, m)]
    /\ UNCHANGED <<log, high, granted, network, sent, term, acked, reads>>
ReadAsSent(n) ==
    /\ node[n].stage = "claiming"
    /\ \/ \E m \in network : m.claim = node[n].claim /\ ReadSent(n, m)
       \/ \E claim \in Others(n) : ReadSent(n, FenceOf(claim))

\* A primary has applied its own barrier, and all before it.
Lead(n) ==
    /\ node[n].stage = "claiming" /\ Attached(n)
    /\ "barrier" \in Broken \/ IsNewest(n)
    /\ "former" \in Broken \/ Others(n) = {}
    /\ node' = [node EXCEPT ![n].stage = "primary"]
    /\ UNCHANGED <<log, high, granted, network, sent, term, acked, reads>>

(* Writing. *)

\* One batch at a time, decided after the last one was applied: the id is the next one.
Write(n, ids) ==
    /\ node[n].stage = "primary" /\ Attached(n) /\ ~OnItsWay(n) /\ Applied(n) = Written(node[n].claim)
    /\ \A id \in ids : id > MaxId(node[n].store)
    /\ Send(n, Record(n, "write", ids))
    /\ UNCHANGED node

\* What was sent arrives, or never. A second arrival would be refused, being out of its turn.
Arrive(m) ==
    /\ m \in network /\ Accepted(m)
    /\ log' = Append(log, m)
    /\ network' = IF "sequence" \in Broken THEN network ELSE network \ {m}
    /\ UNCHANGED <<high, granted, sent, term, node, acked, reads>>

Replicate(end) ==
    /\ end \in high + 1..Len(log)
    /\ high' = end
    /\ UNCHANGED <<log, granted, network, sent, term, node, acked, reads>>

\* A node applies what it may read. A primary that reads a newer barrier is none any more.
Apply(n, end) ==
    LET news == SubSeq(log, Len(node[n].store) + 1, end)
        deposed == \E i \in Barriers(news) : news[i].claim # node[n].claim
    IN  /\ Attached(n) /\ end \in Len(node[n].store) + 1..high
        /\ node' = [node EXCEPT
            ![n].store = @ \o news,
            ![n].stage = IF @ = "primary" /\ deposed THEN "following" ELSE @]
        /\ UNCHANGED <<log, high, granted, network, sent, term, acked, reads>>

\* Whatever the store holds may be shown, to whoever wrote it or to others. What the log has confirmed is acknowledged
\* to another node before it is applied: that node replies once its own store has it.
Acknowledge(n, end) ==
    /\ \/ /\ Attached(n) /\ end \in 1..Len(node[n].store)
          /\ acked' = acked \cup {node[n].store[end].serial}
       \/ /\ end \in 1..high /\ log[end].claim = node[n].claim
          /\ acked' = acked \cup {log[end].serial}
       \/ /\ "confirmed" \in Broken
          /\ \E m \in network : m.claim = node[n].claim /\ acked' = acked \cup {m.serial}
    /\ UNCHANGED <<log, high, granted, network, sent, term, node, reads>>

\* The election was lost, the claim was fenced or is in doubt, or the process was killed; its store remains.
Stop(n) ==
    /\ node[n].stage \in {"claiming", "primary"}
    /\ node' = [node EXCEPT ![n].stage = "following"]
    /\ UNCHANGED <<log, high, granted, network, sent, term, acked, reads>>

(* The read barrier. *)

BeginRead(reader, n) ==
    /\ reader \notin {read.reader : read \in reads}
    /\ reads' = reads \cup {[reader |-> reader, node |-> n, need |-> acked, end |-> -1]}
    /\ UNCHANGED <<log, high, granted, network, sent, term, node, acked>>

QueryEnd(read) ==
    /\ read \in reads /\ read.end = -1 /\ Attached(read.node)
    /\ reads' = (reads \ {read}) \cup {[read EXCEPT !.end =
        IF "end" \in Broken THEN Len(node[read.node].store) ELSE high]}
    /\ UNCHANGED <<log, high, granted, network, sent, term, node, acked>>

Answerable(read) == read.end >= 0 /\ Attached(read.node) /\ Len(node[read.node].store) >= read.end
Answer(read) ==
    /\ read \in reads /\ Answerable(read)
    /\ reads' = reads \ {read}
    /\ UNCHANGED <<log, high, granted, network, sent, term, node, acked>>

(* A log that is cut, and grows again: after an election of another leader by what was not replicated, and by *)
(* more if Kafka loses what it acknowledged. Only that may be missing afterwards.                             *)

Cut(end) ==
    /\ term < CutsMax /\ end \in 0..Len(log) - 1
    /\ log' = SubSeq(log, 1, end) /\ high' = Min(high, end) /\ term' = term + 1 /\ network' = {} /\ reads' = {}
    /\ acked' = acked \cap Serials(SubSeq(log, 1, end))
    /\ UNCHANGED <<granted, sent, node>>

Compare(n) ==
    LET same == "lineage" \in Broken \/ IsPrefix(node[n].store, log)
    IN  /\ node[n].term < term
        /\ node' = [node EXCEPT ![n].term = term, ![n].stage = IF same THEN @ ELSE "apart"]
        /\ UNCHANGED <<log, high, granted, network, sent, term, acked, reads>>

Next ==
    \/ \E n \in Nodes :
        \/ \E claim \in Claims : Possible(claim) /\ Claim(n, claim)
        \/ sent < SentMax /\ (FenceOthers(n) \/ SendBarrier(n) \/ Write(n, {MaxId(node[n].store) + 1}))
        \/ ReadAsSent(n) \/ Lead(n) \/ Stop(n) \/ Compare(n) \/ Apply(n, Len(node[n].store) + 1)
        \/ Readers # {} /\ \E end \in {Len(node[n].store), high} : Acknowledge(n, end)
        \/ \E reader \in Readers : BeginRead(reader, n)
    \/ Replicate(high + 1)
    \/ \E m \in network : Arrive(m)
    \/ \E read \in reads : QueryEnd(read)
    \/ \E end \in 0..Len(log) : Cut(end)

Spec == Init /\ [][Next]_vars

(* What is promised. *)

NoIdTwice == \A i, j \in 1..Len(log) : i # j => log[i].ids \cap log[j].ids = {}
NothingTwice == \A i, j \in 1..Len(log) : log[i].serial = log[j].serial => i = j
NothingAcknowledgedIsLost == acked \subseteq Serials(log)
NoStaleRead == \A read \in reads : Answerable(read) => read.need \subseteq Serials(node[read.node].store)
Unfenced(n) == node[n].stage = "primary" /\ Attached(n) /\ ~Ended(node[n].claim)
OneWriter == \A n, m \in Nodes : Unfenced(n) /\ Unfenced(m) => n = m
StoresAreTrue == \A n \in Nodes : Attached(n) => IsPrefix(node[n].store, log)
=============================================================================
