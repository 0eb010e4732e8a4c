//! The HTTP interface over real sockets, on the embedded adapters in a temporary folder.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "api/access.rs"]
mod access;
#[path = "api/administration.rs"]
mod administration;
#[path = "api/alerts.rs"]
mod alerts;
#[path = "api/answers.rs"]
mod answers;
#[path = "api/batches.rs"]
mod batches;
#[path = "api/bounds.rs"]
mod bounds;
#[path = "api/breakers.rs"]
mod breakers;
#[path = "api/cancels.rs"]
mod cancels;
#[path = "api/children.rs"]
mod children;
#[path = "api/dead_letter.rs"]
mod dead_letter;
#[path = "api/dead_letters.rs"]
mod dead_letters;
#[path = "api/disabling.rs"]
mod disabling;
#[path = "api/documents.rs"]
mod documents;
#[path = "api/edges.rs"]
mod edges;
#[path = "api/events.rs"]
mod events;
#[path = "api/framing.rs"]
mod framing;
#[path = "api/idempotency.rs"]
mod idempotency;
#[path = "api/issuer.rs"]
mod issuer;
#[path = "api/labels.rs"]
mod labels;
#[path = "api/limits.rs"]
mod limits;
#[path = "api/links.rs"]
mod links;
#[path = "api/operators.rs"]
mod operators;
#[path = "api/pages.rs"]
mod pages;
#[path = "api/queues.rs"]
mod queues;
#[path = "api/races.rs"]
mod races;
#[path = "api/reading.rs"]
mod reading;
#[path = "api/reply.rs"]
mod reply;
#[path = "api/results.rs"]
mod results;
#[path = "api/run_again.rs"]
mod run_again;
#[path = "api/schedules.rs"]
mod schedules;
#[path = "api/script.rs"]
mod script;
#[path = "api/searches.rs"]
mod searches;
#[path = "api/signals.rs"]
mod signals;
#[path = "api/site.rs"]
mod site;
#[path = "api/stopping.rs"]
mod stopping;
#[path = "api/tokens.rs"]
mod tokens;
#[path = "api/types.rs"]
mod types;
#[cfg(feature = "ui")]
#[path = "api/ui.rs"]
mod ui;
#[path = "api/uploads.rs"]
mod uploads;
#[path = "api/webhooks.rs"]
mod webhooks;
#[path = "api/worker_details.rs"]
mod worker_details;
#[path = "api/workers.rs"]
mod workers;
