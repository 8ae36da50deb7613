//! A position in a branch. One thread at a time. It waits for nothing but the disk.
//!
//! Invariants:
//! 1. While `valid`, `key`, `tag` and `value` are those of entry `at` of the current leaf, and `path` leads to that
//!    leaf.
//! 2. `key` starts with the prefix of the current leaf, so a step within a leaf rewrites only the bytes after it.
//! 3. Every operation clears `valid` first and sets it last, so an error leaves the cursor unpositioned.

use super::current_leaf::{Approach, CurrentLeaf};
use super::extent_reader::Purpose;
use crate::branch::branch::{Branch, page_number};
use crate::branch::read::fences;
use crate::branch::read::page_read::{INDEX_LINES, LEAF_LINES, WantedPage, child_of};
use crate::cache::Page;
use crate::format::sorted_page::{ChildLocation, SortedPage, tag_kind, tag_number};
use crate::io::{ReadDone, ReadRequest};
use crate::merge::{Cursor, EntryRef, Limit, PinnedValue, Visitor};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use crossbeam_epoch::Guard;
use std::ops::{ControlFlow, Range};

/// An index page on the path to the leaf, and the child that was taken. A seek does not keep the page, so in a cached
/// branch it pins nothing but its leaf. The first step to another leaf keeps it for all following steps.
struct Step {
    location: ChildLocation,
    level: u8,
    count: usize,
    at: usize,
    page: Option<Page>,
}

impl Step {
    /// The location of the child that is taken.
    fn child(&mut self, branch: &Branch, fill_cache: bool) -> Result<ChildLocation> {
        let page = match self.page.take() {
            Some(page) => page,
            None => branch.pinned_page(WantedPage::child(self.location, self.level), fill_cache)?,
        };
        let child = branch.child(page.payload(), self.location, self.at);
        self.page = Some(page);
        child
    }
}

/// The child to take on the way down.
#[derive(Clone, Copy)]
enum Pick<'a> {
    First,
    Last,
    Towards(&'a [u8], SequenceNumber),
}

/// The target of a search, and the side from which the search approaches it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'k> {
    /// Encoded key.
    pub key: &'k [u8],
    /// The version's number.
    pub number: SequenceNumber,
    /// Search for the last entry at or before the target, not for the first at or after it.
    pub backward: bool,
}

/// The state of a search after a round.
#[derive(Debug)]
pub enum SearchStep {
    /// The search continues with the next round.
    Continue,
    /// The page is not in memory. This is the read request for it.
    Missing(ReadRequest),
    /// The cursor is at the target.
    Arrived,
}

/// What a search does in its next round (`search_together`).
#[derive(Clone, Copy, Debug)]
enum Next {
    /// No search is in progress.
    Nothing,
    /// Looks for fences, and else at the root.
    Start,
    /// Looks at this page. `missing` is set once the page was not in memory.
    Page { location: ChildLocation, level: u8, missing: bool },
    /// Prefetches this leaf, whose entry in the page table was prefetched before.
    LookAhead { location: ChildLocation },
    /// Finds the place in the current leaf.
    Rank,
    /// Moves to the entry at, or next to, this place.
    Position { at: usize },
}

/// See the module documentation.
pub struct BranchCursor {
    branch: Arc<Branch>,
    purpose: Purpose,
    path: Vec<Step>,
    /// The number of the current leaf, if fences led to it. Then there is no path.
    leaf_number: Option<usize>,
    next: Next,
    leaf: CurrentLeaf,
    count: usize,
    at: usize,
    key: Vec<u8>,
    tag: u64,
    value: Range<usize>,
    valid: bool,
    /// Entries passed since they were counted last.
    passed: u64,
}

fn index_count(payload: &[u8]) -> usize {
    SortedPage::new(payload).map_or(0, |page| page.count())
}

impl Branch {
    /// A cursor over the entries.
    pub fn cursor(self: &Arc<Self>, purpose: Purpose) -> BranchCursor {
        BranchCursor::new(Arc::clone(self), purpose)
    }
}

impl BranchCursor {
    pub(in crate::branch) fn new(branch: Arc<Branch>, purpose: Purpose) -> Self {
        Self {
            leaf: CurrentLeaf::new(purpose),
            branch,
            purpose,
            path: Vec::new(),
            leaf_number: None,
            next: Next::Nothing,
            count: 0,
            at: 0,
            key: Vec::new(),
            tag: 0,
            value: 0..0,
            valid: false,
            passed: 0,
        }
    }

    /// Makes it an unpositioned cursor over another branch, which keeps the memory of its buffers.
    pub fn aim(&mut self, branch: &Arc<Branch>) {
        self.rest();
        if !Arc::ptr_eq(&self.branch, branch) {
            self.branch = Arc::clone(branch);
        }
    }

    /// Counts what a user's cursor took from memory.
    fn count_passed(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if passed > 0 && self.purpose == Purpose::Read && self.branch.in_buffer().is_some() {
            self.branch.context().note_buffered_rows(passed);
        }
    }

    /// The location of the current leaf; `None` if there is none.
    pub(in crate::branch) fn leaf_location(&mut self) -> Option<ChildLocation> {
        self.find_path().ok()?;
        let fill_cache = self.fills_cache();
        let step = self.path.last_mut()?;
        step.child(&self.branch, fill_cache).ok()
    }

    fn fills_cache(&self) -> bool {
        self.purpose == Purpose::Read
    }

    /// Descends from the root to a leaf.
    fn descend_from_root(&mut self, pick: Pick<'_>) -> Result<()> {
        self.path.clear();
        self.leaf_number = None;
        let footer = self.branch.footer()?;
        if footer.entries == 0 {
            self.count = 0;
            return Ok(());
        }
        let root = footer.root;
        self.descend(root, pick, Approach::Seek)
    }

    /// Descends from `location`, a child of the last page on the path, to a leaf.
    fn descend(&mut self, location: ChildLocation, pick: Pick<'_>, approach: Approach) -> Result<()> {
        let leaf = self.descend_index(location, pick)?;
        self.leaf.load(&self.branch, leaf, approach)?;
        self.enter_leaf(leaf)
    }

    /// As `descend`, but only to the location of the leaf.
    fn descend_index(&mut self, mut location: ChildLocation, pick: Pick<'_>) -> Result<ChildLocation> {
        let height = self.branch.footer()?.height as usize;
        let guard = crossbeam_epoch::pin();
        while self.path.len() < height {
            let level = (height - self.path.len()) as u8;
            let page = self.branch.page(WantedPage::child(location, level), self.fills_cache(), &guard)?;
            let count = index_count(page.payload());
            let at = match pick {
                Pick::First => 0,
                Pick::Last => count.saturating_sub(1),
                Pick::Towards(key, number) => child_of(page.payload(), key, number),
            };
            let child = self.branch.child(page.payload(), location, at)?;
            self.path.push(Step { location, level, count, at, page: None });
            location = child;
        }
        Ok(location)
    }

    /// Finds the path to the current leaf, if fences led to it.
    fn find_path(&mut self) -> Result<()> {
        if self.leaf_number.take().is_none() {
            return Ok(());
        }
        let Some(page) = SortedPage::new(self.leaf.payload()).filter(|page| page.count() > 0) else { return Ok(()) };
        let (first, mut key) = (page.parts(0), Vec::new());
        page.append_key(0, &first, &mut key);
        let root = self.branch.footer()?.root;
        self.path.clear();
        self.descend_index(root, Pick::Towards(&key, tag_number(first.tag)))?;
        Ok(())
    }

    /// The location of the leaf next to the current one, if fences led to that and are still in memory.
    /// `Some(None)` if there is no such leaf.
    fn neighbour(&self, forward: bool) -> Option<Option<(usize, ChildLocation)>> {
        let at = self.leaf_number?;
        let guard = crossbeam_epoch::pin();
        let fences = self.branch.fences(&guard)?;
        let next = if forward { Some(at + 1) } else { at.checked_sub(1) };
        Some(next.and_then(|next| Some((next, fences.location(next)?))))
    }

    /// Starts to read the current leaf, which is at `location`.
    fn enter_leaf(&mut self, location: ChildLocation) -> Result<()> {
        let Some(page) = SortedPage::new(self.leaf.payload()) else {
            return Err(self.branch.corruption(
                location.offset(),
                "leaf",
                "a valid page",
                "lengths that exceed the page",
            ));
        };
        self.key.clear();
        self.key.extend_from_slice(page.prefix());
        self.count = page.count();
        Ok(())
    }

    /// Moves to the next or the previous leaf. Returns false if there is none.
    fn step_leaf(&mut self, forward: bool) -> Result<bool> {
        if let Some(neighbour) = self.neighbour(forward) {
            let Some((number, location)) = neighbour else { return Ok(false) };
            self.leaf.load(&self.branch, location, if forward { Approach::Forward } else { Approach::Backward })?;
            self.leaf_number = Some(number);
            self.enter_leaf(location)?;
            return Ok(true);
        }
        self.find_path()?;
        let fill_cache = self.fills_cache();
        while let Some(step) = self.path.last_mut() {
            let next = if forward { Some(step.at + 1) } else { step.at.checked_sub(1) };
            if let Some(next) = next.filter(|next| *next < step.count) {
                step.at = next;
                let child = step.child(&self.branch, fill_cache)?;
                let (pick, approach) =
                    if forward { (Pick::First, Approach::Forward) } else { (Pick::Last, Approach::Backward) };
                self.descend(child, pick, approach)?;
                return Ok(true);
            }
            self.path.pop();
        }
        Ok(false)
    }

    /// Moves to entry `at` of the current leaf.
    #[inline]
    fn position_on(&mut self, at: usize) {
        let Some(page) = SortedPage::new(self.leaf.payload()) else { return };
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut self.key);
        page.prefetch(at + 1);
        self.tag = parts.tag;
        self.value = parts.value;
        self.at = at;
        self.valid = true;
    }

    /// Prefetches the first lines of the next leaf, if it and the index page above it are in memory.
    fn prefetch_next_leaf(&self) {
        if self.leaf_number.is_some() {
            if let Some(Some((_, leaf))) = self.neighbour(true) {
                self.branch.prefetch_page(WantedPage::child(leaf, 0), LEAF_LINES, &crossbeam_epoch::pin());
            }
            return;
        }
        let Some(step) = self.path.last().filter(|step| step.at + 1 < step.count) else { return };
        let guard = crossbeam_epoch::pin();
        let cached = || self.branch.cached(WantedPage::child(step.location, step.level), &guard);
        let payload = match &step.page {
            Some(page) => page.payload(),
            None => match cached() {
                Ok(Some(page)) => page.payload(),
                _ => return,
            },
        };
        if let Ok(child) = self.branch.child(payload, step.location, step.at + 1) {
            self.branch.prefetch_page(WantedPage::child(child, 0), LEAF_LINES, &guard);
        }
    }

    /// As `pass`, to the end of the leaf: `None` if that was reached. The page is parsed once, and one search finds the
    /// limit.
    fn pass_in_leaf(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Option<ControlFlow<()>> {
        let page = SortedPage::new(self.leaf.payload())?;
        let (start, count) = (self.at, self.count);
        let end = limit.key().map_or(count, |key| page.rank_after(start, key).clamp(start + 1, count));
        if end == count && visitor.wants() > count - start {
            self.prefetch_next_leaf();
        }
        let taken = visitor.visit_page(&SortedPage::new(self.leaf.payload())?, start..end);
        self.passed += taken as u64;
        let next = start + taken;
        if next >= count {
            return None;
        }
        if taken > 0 {
            self.position_on(next);
        }
        Some(if next < end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Moves to entry `at` of the current leaf, or to the first entry of the next leaf if `at` is after the last entry.
    #[inline]
    fn position_at_or_after(&mut self, at: usize) -> Result<()> {
        if at < self.count {
            self.position_on(at);
        } else if self.step_leaf(true)? {
            self.position_on(0);
        }
        Ok(())
    }

    /// Moves to the entry before entry `at` of the current leaf, or to the last entry of the previous leaf.
    fn position_before(&mut self, at: usize) -> Result<()> {
        if at > 0 {
            self.position_on(at - 1);
        } else if self.step_leaf(false)? {
            self.position_on(self.count - 1);
        }
        Ok(())
    }

    fn rank(&self, key: &[u8], number: SequenceNumber, inclusive: bool) -> usize {
        SortedPage::new(self.leaf.payload()).map_or(0, |page| page.rank(key, number, inclusive))
    }

    pub(in crate::branch) fn branch(&self) -> &Arc<Branch> {
        &self.branch
    }

    /// Sets the number of bytes after the first leaf that the scan starting with the next search is expected to read.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.leaf.expect_bytes(bytes);
    }

    /// Begins a search, which `search_together` completes.
    pub fn begin_search(&mut self) -> Result<()> {
        self.count_passed();
        self.valid = false;
        self.path.clear();
        self.leaf_number = None;
        // A file with range tombstones only has no root.
        let has_entries = self.branch.footer()?.entries > 0;
        self.next = if has_entries { Next::Start } else { Next::Nothing };
        Ok(())
    }

    /// Whether a search is in progress.
    pub(in crate::branch) fn is_searching(&self) -> bool {
        !matches!(self.next, Next::Nothing)
    }

    /// Whether the search waits for a page that was not in memory.
    pub(in crate::branch) fn needs_page(&self) -> bool {
        matches!(self.next, Next::Page { missing: true, .. })
    }

    /// Performs one round of the search.
    pub(in crate::branch) fn advance(&mut self, target: Target<'_>, guard: &Guard) -> Result<SearchStep> {
        match self.next {
            Next::Nothing => return Ok(SearchStep::Arrived),
            Next::Start => return self.start(target, guard),
            Next::Page { location, level, .. } => {
                let wanted = WantedPage::child(location, level);
                if level == 0 {
                    if self.leaf.load_cached(&self.branch, wanted, guard)? {
                        return self.take_leaf(location);
                    }
                } else if let Some(page) = self.branch.cached(wanted, guard)? {
                    let step = self.choose(page.payload(), (location, level), target)?;
                    return Ok(self.take(step, guard));
                }
                self.next = Next::Page { location, level, missing: true };
                let request = match level {
                    0 => self.leaf.request(&self.branch, wanted, target.backward),
                    _ => self.branch.request(wanted),
                };
                return Ok(SearchStep::Missing(request?));
            }
            Next::LookAhead { location } => {
                self.branch.prefetch_page(WantedPage::child(location, 0), LEAF_LINES, guard);
                self.next = Next::Page { location, level: 0, missing: false };
            }
            Next::Rank => {
                let at = self.rank(target.key, target.number, target.backward);
                self.leaf.prefetch(at.saturating_sub(usize::from(target.backward)));
                self.next = Next::Position { at };
            }
            Next::Position { at } => {
                self.next = Next::Nothing;
                if target.backward {
                    self.position_before(at)?
                } else {
                    self.position_at_or_after(at)?
                };
                return Ok(SearchStep::Arrived);
            }
        }
        Ok(SearchStep::Continue)
    }

    /// Performs one round with the result of the read that the last round requested.
    pub(in crate::branch) fn advance_with(
        &mut self,
        done: ReadDone,
        target: Target<'_>,
        guard: &Guard,
    ) -> Result<SearchStep> {
        match self.next {
            Next::Page { location, level: 0, .. } => {
                self.leaf.arrived(&self.branch, done, WantedPage::child(location, 0), target.backward)?;
                self.take_leaf(location)
            }
            Next::Page { location, level, .. } => {
                let page = self.branch.arrived(done, WantedPage::child(location, level))?;
                let step = self.choose(page.payload(), (location, level), target)?;
                Ok(self.take(step, guard))
            }
            Next::Nothing | Next::Start | Next::LookAhead { .. } | Next::Rank | Next::Position { .. } => {
                self.advance(target, guard)
            }
        }
    }

    /// The first round of a search: by fences if they are in memory, and else from the root.
    fn start(&mut self, target: Target<'_>, guard: &Guard) -> Result<SearchStep> {
        let footer = self.branch.footer()?;
        if fences::are_worthwhile(footer.height) {
            match self.branch.fences(guard).map(|fences| fences.leaf_of(target.key)) {
                Some(Some((number, leaf))) => {
                    self.leaf_number = Some(number);
                    return Ok(self.approach_leaf(leaf, guard));
                }
                None if self.purpose == Purpose::Read => self.branch.note_search_without_fences(footer),
                Some(None) | None => {}
            }
        }
        self.next = Next::Page { location: footer.root, level: footer.height as u8, missing: false };
        self.advance(target, guard)
    }

    /// The leaf's entry in the page table is not in the processor's cache, so looking the leaf up now would wait.
    fn approach_leaf(&mut self, leaf: ChildLocation, guard: &Guard) -> SearchStep {
        self.branch.table().prefetch(page_number(leaf.offset()), guard);
        self.next = Next::LookAhead { location: leaf };
        SearchStep::Continue
    }

    /// The step to the child of an index page that leads to the target, and the child's location.
    fn choose(
        &self,
        payload: &[u8],
        (location, level): (ChildLocation, u8),
        target: Target<'_>,
    ) -> Result<(Step, ChildLocation)> {
        let at = child_of(payload, target.key, target.number);
        let child = self.branch.child(payload, location, at)?;
        Ok((Step { location, level, count: index_count(payload), at, page: None }, child))
    }

    fn take(&mut self, (step, child): (Step, ChildLocation), guard: &Guard) -> SearchStep {
        let level = step.level - 1;
        self.path.push(step);
        if level == 0 {
            return self.approach_leaf(child, guard);
        }
        self.branch.prefetch_page(WantedPage::child(child, level), INDEX_LINES, guard);
        self.next = Next::Page { location: child, level, missing: false };
        SearchStep::Continue
    }

    fn take_leaf(&mut self, location: ChildLocation) -> Result<SearchStep> {
        self.enter_leaf(location)?;
        self.next = Next::Rank;
        Ok(SearchStep::Continue)
    }
}

impl Drop for BranchCursor {
    fn drop(&mut self) {
        self.count_passed();
    }
}

impl Cursor for BranchCursor {
    fn rest(&mut self) {
        self.count_passed();
        (self.valid, self.next, self.leaf_number) = (false, Next::Nothing, None);
        self.path.clear();
        self.leaf.leave();
    }

    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        if key > &self.branch.meta().key_max[..] {
            return Ok(());
        }
        self.descend_from_root(Pick::Towards(key, number))?;
        self.position_at_or_after(self.rank(key, number, false))
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        if key < &self.branch.meta().key_min[..] {
            return Ok(());
        }
        self.descend_from_root(Pick::Towards(key, number))?;
        self.position_before(self.rank(key, number, true))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.valid = false;
        self.descend_from_root(Pick::First)?;
        self.position_at_or_after(0)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        self.descend_from_root(Pick::Last)?;
        self.position_before(self.count)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.valid = false;
        self.passed += 1;
        self.position_at_or_after(self.at + 1)
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.valid = false;
        self.passed += 1;
        self.position_before(self.at)
    }

    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        loop {
            if let Some(flow) = self.pass_in_leaf(limit, visitor) {
                return Ok(flow);
            }
            self.valid = false;
            if !self.step_leaf(true)? {
                return Ok(ControlFlow::Continue(()));
            }
            self.position_on(0);
            if !self.valid || limit.is_reached(&self.key) {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        debug_assert!(self.valid);
        EntryRef {
            key: &self.key,
            number: tag_number(self.tag),
            kind: tag_kind(self.tag),
            value: self.leaf.payload().get(self.value.clone()).unwrap_or_default(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        &self.key
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.leaf.pinned_value(&self.value)
    }
}
