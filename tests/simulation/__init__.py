"""A simulated cluster on the real store: workers that take runs, are killed, stall and come back.

Files are real and time is simulated. Every worker is a thread, and one moves at a time: each call
of the file system lets others move, so that the calls of workers interleave as the seed has it;
only looks at the states of runs come in groups. A killed worker stops before a call or in its
sleep, and never moves again: it releases nothing, and no handler runs. A stalled one comes back and
does not know that time has passed. What workers do is `paper.sweep.finished` and
`paper.execution.attempt`; only the training is a sleep.
"""

from simulation.cluster import Conditions, Outcome, simulate

__all__ = ["Conditions", "Outcome", "simulate"]
