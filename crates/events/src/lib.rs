//! Names to encodings.
