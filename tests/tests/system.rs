//! Whole-system tests in one binary, so that it links once. A list of modules and nothing else.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod system {
    mod audit;
    mod cancel;
    mod chaos;
    mod clients;
    mod clock;
    mod cluster;
    mod command_line;
    mod dead_letters;
    mod demo;
    mod deployment;
    mod describe;
    mod dev;
    mod doctor;
    mod documents;
    mod dry_run;
    mod events;
    mod failover;
    mod fan_out;
    mod figures;
    mod flow;
    mod flow_of_keys;
    mod fsck;
    mod generators;
    mod health;
    mod isolation;
    mod keys;
    mod kills;
    mod large;
    mod limits;
    mod logs;
    mod mcp;
    mod metrics;
    mod new_program;
    mod one_operation;
    mod openapi;
    mod operators;
    mod orders;
    mod outage;
    mod page;
    mod parked;
    mod payloads;
    mod power;
    mod processes;
    mod queues_and_limits;
    mod reads;
    mod restarts;
    mod rights;
    mod schedules;
    mod secrets;
    mod shared_servers;
    mod shutdown;
    mod signals;
    mod state;
    mod step_processes;
    mod step_protection;
    mod submitting;
    mod task_logs;
    mod traces;
    mod unreachable;
    mod uploads;
    mod videos;
    mod webhooks;
}
