//! The IO pattern language: parse, validate, expand to IOs.
