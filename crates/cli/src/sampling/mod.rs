//! What `record` and `top` share: choosing events, opening them with a ring per CPU, naming places in code.

pub(crate) mod choose;
pub(crate) mod kallsyms;
pub(crate) mod listing;
pub(crate) mod names;
pub(crate) mod procfs;
pub(crate) mod rings;

pub(crate) use choose::{Chains, Chosen, Request, choose};
pub(crate) use rings::{Opened, Scope};
pub(crate) mod waiting;
