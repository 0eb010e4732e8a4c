//! The engine under task types made for it: flow, policies, cancels, undo, recovery. Each test
//! drives turns on real adapters and reads the outcome back from the audit.

mod ahead;
mod blocking;
mod breaker;
mod cancel;
mod drains;
mod elsewhere;
mod errand;
mod fallback;
mod flow;
mod fsck;
mod groups;
mod guards;
mod heavy;
mod hints;
mod kept;
mod locks;
mod lost;
mod manual;
mod operator;
mod overrides;
mod own_tables;
mod poison;
mod policies;
mod probe;
mod progress;
mod recovery;
mod scratch;
mod signals;
mod state;
mod timers;
mod undo;
mod versions;
mod when;
