//! Nothing but the fuzz targets in `tests/`.
