//! The engine under task types made for it: flow, policies, cancels, undo, recovery. Each test
//! drives turns on real adapters and reads the outcome back from the audit.

mod acks_and_grace;
mod ahead;
mod blocking;
mod breaker;
mod cancel;
mod drains;
mod errand;
mod fallback;
mod flow;
mod fsck;
mod groups;
mod heavy;
mod hints;
mod kept;
mod locks;
mod lost;
mod manual;
mod operator;
mod other_processes;
mod overrides;
mod own_tables;
mod poison;
mod policies;
mod probe;
mod progress;
mod recovery;
mod scratch;
mod sees;
mod signals;
mod state;
mod timers;
mod two_workers;
mod undo;
mod versions;
mod when;
