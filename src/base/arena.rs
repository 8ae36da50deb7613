//! Anonymous memory in one piece, given out from front to back, recycled through a pool so that the same pages are
//! never faulted in twice (`machine.md`: a fresh page costs microseconds).
