//! In place of `follow` where there is no virtual PMU: `available` has said so before anything here is
//! asked for.

use super::shared::Shared;
use super::{BeforeStart, LaunchError};
use std::process::{Child, Command};
use std::sync::Arc;

/// Nothing is started.
pub(super) fn first(
    _command: &mut Command,
    _shared: &Arc<Shared>,
    _before: Option<&BeforeStart>,
) -> Result<Child, LaunchError> {
    Err(LaunchError::Unavailable)
}

/// Nothing runs.
pub(super) fn wait_for_end(_pid: u32) {}

/// Nobody asks.
pub(super) struct Service(());

impl Service {
    pub(super) fn start(_shared: &Arc<Shared>, _child: u32) -> Result<Self, LaunchError> {
        Err(LaunchError::Unavailable)
    }

    pub(super) fn stop(&mut self) {}
}
