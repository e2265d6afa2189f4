------------------------------ MODULE Replay ------------------------------
(* Histories of the simulation as behaviors of the model: each of their events has to be one of its steps.  *)
(* The module Traces is written by replay.py.                                                               *)
EXTENDS Registrar, Traces, TLC

VARIABLES
    trace, \* Which of the histories.
    at     \* Its next event.

\* An append may take several batches, which are decided together.
WriteAll(n, batches) ==
    LET first == Record(n, "write", {})
    IN  /\ Write(n, UNION Range(batches))
        /\ network' = network \cup {[first EXCEPT
            !.serial = @ + i - 1, !.turn = @ + i - 1, !.ids = batches[i]] : i \in 1..Len(batches)}
        /\ sent' = sent + Len(batches)

Step(e) ==
    CASE e.what = "lost claim" -> LoseClaim(e.claim)
      [] e.what = "claim" -> Claim(e.node, e.claim)
      [] e.what = "fence" -> Fence(e.claim)
      [] e.what = "barrier" -> SendBarrier(e.node)
      [] e.what = "write" -> WriteAll(e.node, e.batches)
      [] e.what = "arrive" -> \E m \in network : m.claim = e.claim /\ Arrive(m)
      [] e.what = "replicate" -> Replicate(e.end)
      [] e.what = "apply" -> Apply(e.node, e.end)
      [] e.what = "lead" -> Lead(e.node)
      [] e.what = "stop" -> Stop(e.node) \/ (node[e.node].stage = "following" /\ UNCHANGED vars)
      [] e.what = "acknowledge" -> Acknowledge(e.node, e.end)
      [] e.what = "read" -> BeginRead(e.reader, e.node)
      [] e.what = "query" -> \E read \in reads : read.reader = e.reader /\ QueryEnd(read)
      [] e.what = "answer" -> \E read \in reads : read.reader = e.reader /\ e.end >= read.end /\ Answer(read)

InitReplay == Init /\ trace \in 1..Len(Traces) /\ at = 1
\* How far each history gets is printed.
NextReplay ==
    /\ at <= Len(Traces[trace]) /\ Step(Traces[trace][at])
    /\ PrintT(<<"event", trace, at>>)
    /\ at' = at + 1 /\ UNCHANGED trace
===========================================================================
