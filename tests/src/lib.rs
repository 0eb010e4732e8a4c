//! What the whole-system tests share: the program as a process, clients of its API, and a look at
//! the rows and objects that it leaves behind. Holds no test, and knows the product only from
//! outside: its program, its HTTP interface, and the ports of its stores.

pub mod api;
pub mod archive;
pub mod browser;
pub mod chaos;
pub mod cluster;
pub mod collector;
pub mod command;
pub mod deployment;
pub mod effects;
pub mod generated;
pub mod manifests;
pub mod own_program;
pub mod place;
pub mod power;
pub mod process;
pub mod program;
pub mod rows;
pub mod sample;
pub mod services;
pub mod transcript;
pub mod wait;
