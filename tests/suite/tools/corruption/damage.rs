//! Kinds of damage to the bytes of a closed store.

use super::world::{Image, World};
use crate::support::Random;
use alluvium::storage::simulated::SimulatedStorage;

/// A kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    FlipBit,
    FlipAtAnEnd,
    SwapBytes,
    Truncate,
    Extend,
    ZeroSector,
    ZeroPage,
    ZeroLarge,
    GarbagePage,
    DuplicatePage,
    SwapPages,
    PageOfAnother,
    Remove,
    SwapFiles,
    OverwriteByAnother,
    StaleCopy,
}

pub const ALL: [Damage; 16] = [
    Damage::FlipBit,
    Damage::FlipAtAnEnd,
    Damage::SwapBytes,
    Damage::Truncate,
    Damage::Extend,
    Damage::ZeroSector,
    Damage::ZeroPage,
    Damage::ZeroLarge,
    Damage::GarbagePage,
    Damage::DuplicatePage,
    Damage::SwapPages,
    Damage::PageOfAnother,
    Damage::Remove,
    Damage::SwapFiles,
    Damage::OverwriteByAnother,
    Damage::StaleCopy,
];

/// A damaged store.
pub struct Case {
    pub what: String,
    /// Names of the files that were changed.
    pub touched: Vec<String>,
    /// The last number at the time of an older copy.
    pub copied_at: Option<u64>,
    pub disk: SimulatedStorage,
}

/// The kind of a file, from its name.
pub fn kind_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

const PAGE: u64 = 4096;

/// Damages one file of a kind; `None` if this damage does not apply there.
pub fn damage(world: &World, kind: &str, damage: Damage, random: &mut Random) -> Option<Case> {
    let names: Vec<&String> = world.image.keys().filter(|name| kind_of(name) == kind).collect();
    let name = *names.get(random.below(names.len().max(1) as u64) as usize)?;
    let others: Vec<&String> = names.iter().copied().filter(|other| *other != name).collect();
    let other = others.get(random.below(others.len().max(1) as u64) as usize).copied();
    let mut bytes = world.image[name].clone();
    let length = bytes.len() as u64;
    if length == 0 && damage != Damage::Remove && damage != Damage::Extend {
        return None;
    }
    let (mut changed, mut removed, mut detail, mut copied_at) = (Image::new(), Vec::new(), String::new(), None);
    let pages = (length / PAGE).max(1);
    let page_at = |page: u64| {
        let from = (page * PAGE).min(length) as usize;
        from..(from + PAGE as usize).min(length as usize)
    };
    match damage {
        Damage::FlipBit | Damage::FlipAtAnEnd => {
            let at = match (damage, random.one_in(2)) {
                (Damage::FlipBit, _) => random.below(length),
                (_, true) => random.below(length.min(96)),
                (_, false) => length - 1 - random.below(length.min(4096)),
            };
            bytes[at as usize] ^= 1 << random.below(8);
            detail = format!("at {at}");
        }
        Damage::SwapBytes => {
            let at = random.below(length - 1) as usize;
            bytes.swap(at, at + 1);
            detail = format!("at {at}");
        }
        Damage::Truncate => {
            let to = if random.one_in(2) { random.below(length) } else { random.below(pages) * PAGE };
            bytes.truncate(to as usize);
            detail = format!("to {to} of {length}");
        }
        Damage::Extend => {
            let more = if random.one_in(2) { 4096 } else { 77 };
            bytes.extend(random.bytes(more));
        }
        Damage::ZeroSector | Damage::ZeroPage | Damage::ZeroLarge => {
            let size = [512, 4096, 65536][damage as usize - Damage::ZeroSector as usize];
            let from = random.below(length.div_ceil(size)) * size;
            bytes[from as usize..(from + size).min(length) as usize].fill(0);
            detail = format!("at {from}");
        }
        Damage::GarbagePage => {
            let page = page_at(random.below(pages));
            detail = format!("at {}", page.start);
            let garbage = random.bytes(page.len());
            bytes[page].copy_from_slice(&garbage);
        }
        Damage::DuplicatePage | Damage::SwapPages => {
            let (one, other) = (page_at(random.below(pages)), page_at(random.below(pages)));
            if one.len() != other.len() {
                return None;
            }
            detail = format!("{} and {}", one.start, other.start);
            let (first, second) = (bytes[one.clone()].to_vec(), bytes[other.clone()].to_vec());
            bytes[other].copy_from_slice(&first);
            if damage == Damage::SwapPages {
                bytes[one].copy_from_slice(&second);
            }
        }
        Damage::PageOfAnother => {
            let all: Vec<&String> = world.image.keys().filter(|other| *other != name).collect();
            let other = all[random.below(all.len() as u64) as usize];
            let source = &world.image[other];
            let page = page_at(random.below(pages));
            let from = if random.one_in(2) {
                page.start
            } else {
                (random.below(source.len() as u64 / PAGE + 1) * PAGE) as usize
            };
            let piece = source.get(from..from + page.len())?;
            detail = format!("at {} from {other}", page.start);
            bytes[page].copy_from_slice(piece);
        }
        Damage::Remove => removed.push(name.clone()),
        Damage::SwapFiles => {
            changed.insert(other?.clone(), bytes);
            bytes = world.image[other?].clone();
        }
        Damage::OverwriteByAnother => bytes = world.image[other?].clone(),
        Damage::StaleCopy => {
            let copies = world.stale.iter().filter_map(|(number, image)| Some((*number, image.get(name)?)));
            let copies: Vec<_> = copies.filter(|(_, copy)| **copy != bytes).collect();
            let (number, copy) = *copies.get(random.below(copies.len().max(1) as u64) as usize)?;
            detail = format!("as it was at number {number}");
            copied_at = Some(number);
            bytes = copy.clone();
        }
    }
    if damage != Damage::Remove {
        if bytes == world.image[name] {
            return None;
        }
        changed.insert(name.clone(), bytes);
    }
    let touched: Vec<String> = changed.keys().chain(&removed).cloned().collect();
    let disk = world.with(&changed, &removed);
    Some(Case { what: format!("{damage:?} of {touched:?} {detail}"), touched, copied_at, disk })
}
