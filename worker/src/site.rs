//! What the site trusts: its own disk, its own policy file, its own key. Nothing leaves before this room has said so.

pub mod clearance;
