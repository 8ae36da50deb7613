//! The graph of which transaction must come before which, and its cycles.

use std::collections::VecDeque;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It wrote the previous version.
    Ww,
    /// It wrote what the other one read.
    Wr,
    /// It read what the other one overwrote.
    Rw,
    /// It had returned before the other one was called, or came before it in its thread.
    Time,
}

/// Kinds of edges, as a set.
#[derive(Clone, Copy, Debug)]
pub struct Kinds(u8);

impl Kinds {
    pub const fn of(kinds: &[Why]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    fn has(self, why: Why) -> bool {
        self.0 >> why as u8 & 1 == 1
    }
}

/// An edge: the other end, the reason, and further data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge<N> {
    pub to: usize,
    pub why: Why,
    pub note: N,
}

/// Edges from each node.
#[derive(Clone, Debug)]
pub struct Graph<N> {
    edges: Vec<Vec<Edge<N>>>,
}

/// A path through the graph: nodes, each with the edge that leaves it.
pub type Path<N> = Vec<(usize, Edge<N>)>;

impl<N: Copy> Graph<N> {
    pub fn new(nodes: usize) -> Self {
        Self { edges: (0..nodes).map(|_| Vec::new()).collect() }
    }

    pub fn add(&mut self, from: usize, to: usize, why: Why, note: N) {
        if from != to {
            self.edges[from].push(Edge { to, why, note });
        }
    }

    /// The strongly connected components with more than one node (Tarjan).
    pub fn components(&self) -> Vec<Vec<usize>> {
        let mut search = Components {
            graph: self,
            seen: vec![None; self.edges.len()],
            stack: Vec::new(),
            count: 0,
            found: Vec::new(),
        };
        for node in 0..self.edges.len() {
            if search.seen[node].is_none() {
                search.visit(node);
            }
        }
        search.found
    }

    /// The shortest cycle through these nodes with edges of these kinds. With `first`, only its first edge is of that
    /// kind.
    pub fn shortest_cycle(&self, nodes: &[usize], kinds: Kinds, first: Option<Why>) -> Option<Path<N>> {
        let mut shortest: Option<Path<N>> = None;
        for &from in nodes {
            for edge in &self.edges[from] {
                if !first.map_or(kinds.has(edge.why), |first| first == edge.why) {
                    continue;
                }
                let Some(rest) = self.way(edge.to, from, kinds) else { continue };
                if shortest.as_ref().is_none_or(|known| known.len() > rest.len() + 1) {
                    shortest = Some([&[(from, *edge)], &rest[..]].concat());
                }
            }
        }
        shortest
    }

    /// The shortest path from one node to another with edges of these kinds.
    fn way(&self, from: usize, to: usize, kinds: Kinds) -> Option<Path<N>> {
        let mut by: Vec<Option<(usize, Edge<N>)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let (mut path, mut at) = (Vec::new(), to);
                while at != from {
                    let step = by[at]?;
                    path.push(step);
                    at = step.0;
                }
                path.reverse();
                return Some(path);
            }
            for edge in self.edges[node].iter().filter(|edge| kinds.has(edge.why)) {
                if edge.to != from && by[edge.to].is_none() {
                    by[edge.to] = Some((node, *edge));
                    queue.push_back(edge.to);
                }
            }
        }
        None
    }
}

struct Components<'a, N> {
    graph: &'a Graph<N>,
    /// When a node was visited, and the earliest node on the stack that is known to be reachable from it.
    seen: Vec<Option<(usize, usize)>>,
    stack: Vec<usize>,
    count: usize,
    found: Vec<Vec<usize>>,
}

impl<N: Copy> Components<'_, N> {
    /// Returns the earliest node on the stack that is reachable from this one.
    fn visit(&mut self, node: usize) -> usize {
        let (when, mut low) = (self.count, self.count);
        self.count += 1;
        self.seen[node] = Some((when, low));
        self.stack.push(node);
        for edge in &self.graph.edges[node] {
            low = low.min(match self.seen[edge.to] {
                None => self.visit(edge.to),
                Some((seen, _)) => seen,
            });
        }
        if low == when {
            let at = self.stack.iter().rposition(|other| *other == node).unwrap_or(0);
            let component = self.stack.split_off(at);
            // The rest of the stack does not reach these again.
            component.iter().for_each(|done| self.seen[*done] = Some((usize::MAX, usize::MAX)));
            if component.len() > 1 {
                self.found.push(component);
            }
        }
        low
    }
}

#[test]
fn components_and_cycles_are_found() {
    let mut graph = Graph::new(7);
    for (from, to) in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3), (5, 4), (0, 6)] {
        graph.add(from, to, if (from, to) == (5, 4) { Why::Rw } else { Why::Ww }, ());
    }
    let mut found = graph.components();
    found.iter_mut().for_each(|component| component.sort_unstable());
    found.sort();
    assert_eq!(found, [vec![0, 1, 2], vec![3, 4, 5]]);
    let nodes = |path: Option<Path<()>>| path.map(|path| path.iter().map(|(node, _)| *node).collect::<Vec<_>>());
    let ww = Kinds::of(&[Why::Ww]);
    assert_eq!(nodes(graph.shortest_cycle(&found[1], ww, None)), Some(vec![3, 4, 5]));
    assert_eq!(nodes(graph.shortest_cycle(&found[1], ww, Some(Why::Rw))), Some(vec![5, 4]));
    assert_eq!(nodes(graph.shortest_cycle(&found[0], ww, Some(Why::Rw))), None);
    assert_eq!(Graph::<()>::new(3).components(), Vec::<Vec<usize>>::new());
}
