//! Whole-system tests in one binary, so that it links once. A list of modules and nothing else.

mod system {
    mod audit;
    mod cancel;
    mod chaos;
    mod clients;
    mod cluster;
    mod command_line;
    mod demo;
    mod deployment;
    mod describe;
    mod dev;
    mod doctor;
    mod documents;
    mod dry_run;
    mod events;
    mod fan_out;
    mod flow;
    mod fsck;
    mod keys;
    mod kills;
    mod large;
    mod limits;
    mod logs;
    mod metrics;
    mod new_program;
    mod openapi;
    mod operators;
    mod orders;
    mod payloads;
    mod processes;
    mod reads;
    mod rights;
    mod schedules;
    mod secrets;
    mod shared_servers;
    mod shutdown;
    mod signals;
    mod state;
    mod submitting;
    mod traces;
    mod uploads;
    mod videos;
    mod webhooks;
}
