//! What a reconciler clears away: orphans, and tasks whose time is over.

mod hanging;
mod orphans;
mod place;
mod retention;
mod thousands;
