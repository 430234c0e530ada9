//! Text inside HTML and SVG: as the exports of profiles have it.

pub(crate) use truecount_profile::export::escape;
