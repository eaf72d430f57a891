//! Congestion control, one controller a path, behind one trait.
