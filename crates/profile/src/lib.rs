//! Region profiles.
