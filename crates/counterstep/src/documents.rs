//! The Rust blocks of the documents, which `cargo test --doc` compiles and runs. A block that is
//! quoted from other code (`rust,ignore (from PATH)`) is compared with it by `cargo xtask tidy`.

#[doc = include_str!("../../../docs/tasks.md")]
struct Tasks;

#[doc = include_str!("../../../docs/operations.md")]
struct Operations;

#[doc = include_str!("../../../docs/holds.md")]
struct Holds;

#[doc = include_str!("../../../docs/recipes.md")]
struct Recipes;

#[doc = include_str!("../../../docs/come-from.md")]
struct ComeFrom;
