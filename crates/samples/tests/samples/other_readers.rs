//! Segments in other people's readers.
