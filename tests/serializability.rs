//! Are transactions serializable? The checker's half: histories of transactions that append to lists.

mod anomaly;
mod checker;
mod effects;
mod graph;
mod hand_made;
mod history;
