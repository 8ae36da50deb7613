//! Steps through the instructions of threads of a child process with ptrace, and records which cache lines they read,
//! write and lock. x86-64 with Linux only.
//!
//! Only the thread that has started the child may step. What the kernel reads and writes in system calls is not seen.

use addr2line::Loader;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
    UsedMemory,
};
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::{Entry, HashMap};
use std::path::Path;
use std::process::Child;

const LINE_BYTES: u64 = 64;
/// More instructions than any operation has.
const STEPS_MAX: u64 = 5_000_000;
/// No instruction is longer.
const INSTRUCTION_BYTES_MAX: usize = 15;

/// The instruction's address, then the places that it returns to, innermost first.
pub type Calls = Vec<u64>;

/// What one operation did with one cache line.
#[derive(Debug, Default)]
pub struct Line {
    /// Instructions that write to it, by address, with the calls that led to the first execution of each.
    pub writes: BTreeMap<u64, Calls>,
}

/// One operation of one thread.
#[derive(Debug, Default)]
pub struct Operation {
    /// The addresses of read-modify-write instructions, in order.
    pub locked: Vec<u64>,
    /// All lines that it reads or writes, by address divided by `LINE_BYTES`.
    pub lines: HashMap<u64, Line>,
}

struct Decoded {
    instruction: Instruction,
    memory: Vec<UsedMemory>,
    locks: bool,
}

/// A child process, some threads of which are traced. It ends with this value.
pub struct Traced {
    child: Child,
    threads: Vec<Pid>,
    decoded: RefCell<HashMap<u64, Decoded>>,
}

impl Traced {
    /// Requires that each of the threads has called `ptrace::traceme`.
    pub fn new(child: Child, threads: Vec<Pid>) -> Self {
        Self { child, threads, decoded: RefCell::default() }
    }

    /// Waits until a thread, given by its place, has stopped itself, steps through it to the next such stop, and lets it go on.
    pub fn operation(&self, thread: usize) -> nix::Result<Operation> {
        let thread = self.threads[thread];
        let status = wait(thread)?;
        assert!(matches!(status, WaitStatus::Stopped(_, Signal::SIGSTOP)), "the child did not stop: {status:?}");
        let found = self.step_through(thread)?;
        ptrace::cont(thread, None)?;
        Ok(found)
    }

    fn step_through(&self, thread: Pid) -> nix::Result<Operation> {
        let (mut found, mut returns) = (Operation::default(), Vec::new());
        let mut decoded = self.decoded.borrow_mut();
        for _ in 0..STEPS_MAX {
            let registers = ptrace::getregs(thread)?;
            let at = registers.rip;
            let decoded = match decoded.entry(at) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(decode(thread, at)?),
            };
            record(&mut found, decoded, &registers, &returns);
            match decoded.instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => returns.push(decoded.instruction.next_ip()),
                FlowControl::Return => drop(returns.pop()),
                _ => {}
            }
            ptrace::step(thread, None)?;
            match wait(thread)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return Ok(found),
                other => panic!("the child ended or met a signal: {other:?}"),
            }
        }
        panic!("the child has taken {STEPS_MAX} steps");
    }

    /// Where the child's executable begins in its memory.
    pub fn base(&self) -> u64 {
        let executable = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        let first = maps.lines().find(|line| Path::new(line.rsplit(' ').next().unwrap()) == executable).unwrap();
        u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // The process does not end before its traced threads were waited for.
        for thread in &self.threads {
            while let Ok(status) = wait(*thread) {
                if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
                    break;
                }
            }
        }
        let _ = self.child.wait();
    }
}

fn wait(thread: Pid) -> nix::Result<WaitStatus> {
    waitpid(thread, Some(WaitPidFlag::__WALL))
}

fn decode(thread: Pid, at: u64) -> nix::Result<Decoded> {
    let first = ptrace::read(thread, at as ptrace::AddressType)?.to_le_bytes();
    // The end of the code may be near.
    let second = ptrace::read(thread, (at + 8) as ptrace::AddressType).map_or([0; 8], i64::to_le_bytes);
    let bytes = [first, second].concat();
    Ok(decode_bytes(&bytes[..INSTRUCTION_BYTES_MAX], at))
}

fn decode_bytes(bytes: &[u8], at: u64) -> Decoded {
    let instruction = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode();
    assert!(!instruction.is_invalid(), "an unknown instruction at {at:#x}: {bytes:x?}");
    let memory = InstructionInfoFactory::new().info(&instruction).used_memory().to_vec();
    let has_memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let locks = instruction.has_lock_prefix() || (instruction.mnemonic() == Mnemonic::Xchg && has_memory);
    Decoded { instruction, memory, locks }
}

fn record(found: &mut Operation, decoded: &Decoded, registers: &user_regs_struct, returns: &[u64]) {
    let at = registers.rip;
    if decoded.locks {
        found.locked.push(at);
    }
    for memory in &decoded.memory {
        let (reads, writes) = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => (true, false),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
            _ => (false, false),
        };
        let Some(address) = memory.virtual_address(0, |register, _, _| value(register, registers)) else { continue };
        let last = address.wrapping_add((memory.memory_size().size() as u64).saturating_sub(1));
        for line in address / LINE_BYTES..=last / LINE_BYTES {
            if reads {
                let line = found.lines.entry(line).or_default();
                if writes {
                    let calls = || std::iter::once(at).chain(returns.iter().rev().copied()).collect();
                    line.writes.entry(at).or_insert_with(calls);
                }
            }
        }
    }
}

fn value(register: Register, registers: &user_regs_struct) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    // Addresses are computed from whole registers, or from the lower halves of them.
    Some(if register.size() == 4 { full & u64::from(u32::MAX) } else { full })
}

/// Names the places of instructions in this executable.
pub struct Names {
    loader: Loader,
    base: u64,
}

impl Names {
    /// For a child that runs this executable at `base`.
    pub fn new(base: u64) -> Self {
        Self { loader: Loader::new(std::env::current_exe().unwrap()).unwrap(), base }
    }

    /// The innermost call in the library apart from its wrappers of locks: the file and the function. Otherwise the
    /// innermost function that has a name.
    pub fn of(&self, calls: &[u64]) -> String {
        for (depth, address) in calls.iter().enumerate() {
            // A place that a call returns to may belong to the next line.
            let address = address.wrapping_sub(self.base).wrapping_sub(u64::from(depth > 0));
            let Ok(mut frames) = self.loader.find_frames(address) else { continue };
            while let Ok(Some(frame)) = frames.next() {
                let file = frame.location.as_ref().and_then(|location| location.file).unwrap_or_default();
                let Some(file) = library_file(file) else { continue };
                let function = frame.function.and_then(|name| Some(name.demangle().ok()?.into_owned()));
                return format!("{file}: {}", function.unwrap_or_default());
            }
        }
        let symbol = |address: &u64| self.loader.find_symbol(address.wrapping_sub(self.base));
        let symbol = calls.iter().find_map(symbol).map(|symbol| addr2line::demangle_auto(symbol.into(), None));
        symbol.map_or_else(|| format!("{calls:x?}"), |symbol| symbol.into_owned())
    }
}

/// The path inside of the repository of a file of the library.
fn library_file(path: &str) -> Option<&str> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let path = path.strip_prefix(root).unwrap_or(path);
    (path.starts_with("src/") && !path.starts_with("src/util/sync")).then_some(path)
}

#[test]
fn read_modify_writes_and_addresses_are_decoded() {
    let decoded = |bytes: &[u8]| decode_bytes(bytes, 0x1000);
    // `lock cmpxchg [rax], rcx` and `xchg [rdi], rax`, then `xchg rdi, rax` and `mov [rdi], rax`.
    assert!(decoded(&[0xf0, 0x48, 0x0f, 0xb1, 0x08]).locks && decoded(&[0x48, 0x87, 0x07]).locks);
    assert!(!decoded(&[0x48, 0x87, 0xc7]).locks && !decoded(&[0x48, 0x89, 0x07]).locks);
    // SAFETY: a struct of integers.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    (registers.rip, registers.rbx, registers.rcx) = (0x1000, 0x10_0000, 7);
    let mut found = Operation::default();
    // `lock add qword ptr [rbx + rcx * 8 + 5], 1` crosses a line: 0x10_003d to 0x10_0044.
    record(&mut found, &decoded(&[0xf0, 0x48, 0x83, 0x44, 0xcb, 0x05, 0x01]), &registers, &[0x2000]);
    assert_eq!(found.locked, [0x1000]);
    let mut lines: Vec<_> = found.lines.keys().copied().collect();
    lines.sort_unstable();
    assert_eq!(lines, [0x4000, 0x4001]);
    assert_eq!(found.lines[&0x4000].writes[&0x1000], [0x1000, 0x2000]);
    // `mov rax, [rip + 0x3f9]` reads 0x1400, `lea rax, [rbx]` reads nothing.
    let mut found = Operation::default();
    record(&mut found, &decoded(&[0x48, 0x8b, 0x05, 0xf9, 0x03, 0, 0]), &registers, &[]);
    record(&mut found, &decoded(&[0x48, 0x8d, 0x03]), &registers, &[]);
    assert_eq!(found.lines.keys().collect::<Vec<_>>(), [&(0x1400 / LINE_BYTES)]);
    assert!(found.lines[&(0x1400 / LINE_BYTES)].writes.is_empty());
}
