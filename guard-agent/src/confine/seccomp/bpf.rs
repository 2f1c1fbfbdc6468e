//! A small assembler for the seccomp programs that `seccompiler` has no words for
//! (user notification, several errnos, several actions in one program).
//!
//! A conditional jump reaches 255 instructions, so each one is written as a test that skips an unconditional
//! jump, which reaches everywhere. The kernel follows both when it looks for calls it may pass without
//! running the program at all.

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
    sock_filter,
};

/// Offsets in `struct seccomp_data`.
pub(super) const OFFSET_NR: u32 = 0;
pub(super) const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

/// The kernel's limit on one program.
const MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Which half of a 64-bit argument; the machine is little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Low,
    High,
}

#[derive(Debug, Clone, Copy)]
enum Item {
    Plain(sock_filter),
    Goto(Label),
}

#[derive(Debug, Default)]
pub(super) struct Assembler {
    items: Vec<Item>,
    /// Position of each label, once placed.
    labels: Vec<Option<usize>>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is what `label` means.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.items.len());
    }

    fn plain(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        // Every code is below 256: they are the constants of this file.
        self.items.push(Item::Plain(sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        }));
    }

    pub(super) fn load(&mut self, offset: u32) {
        self.plain(BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
    }

    pub(super) fn load_arg(&mut self, arg: u8, half: Half) {
        self.load(OFFSET_ARGS + u32::from(arg) * 8 + if half == Half::High { 4 } else { 0 });
    }

    pub(super) fn and(&mut self, mask: u32) {
        self.plain(BPF_ALU | BPF_AND | BPF_K, 0, 0, mask);
    }

    pub(super) fn ret(&mut self, action: u32) {
        self.plain(BPF_RET | BPF_K, 0, 0, action);
    }

    pub(super) fn goto(&mut self, label: Label) {
        self.items.push(Item::Goto(label));
    }

    pub(super) fn if_equal(&mut self, value: u32, label: Label) {
        self.plain(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value);
        self.goto(label);
    }

    pub(super) fn if_not_equal(&mut self, value: u32, label: Label) {
        self.plain(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, value);
        self.goto(label);
    }

    pub(super) fn if_at_least(&mut self, value: u32, label: Label) {
        self.plain(BPF_JMP | BPF_JGE | BPF_K, 0, 1, value);
        self.goto(label);
    }

    pub(super) fn if_any_bit(&mut self, bits: u32, label: Label) {
        self.plain(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
        self.goto(label);
    }

    /// The program, or why there is none.
    pub(super) fn finish(self) -> Result<Vec<sock_filter>, String> {
        let Self { items, labels } = self;
        if items.len() > MAX {
            return Err(format!("{} instructions, the kernel takes {MAX}", items.len()));
        }
        items
            .iter()
            .enumerate()
            .map(|(at, item)| match item {
                Item::Plain(instruction) => Ok(*instruction),
                Item::Goto(label) => {
                    let target = labels[label.0].ok_or_else(|| format!("label {} has no place", label.0))?;
                    // Programs only go forward: this is what makes them end.
                    let distance = target
                        .checked_sub(at + 1)
                        .filter(|_| target < items.len())
                        .ok_or_else(|| format!("jump from {at} to {target}"))?;
                    Ok(sock_filter {
                        code: (BPF_JMP | BPF_JA) as u16,
                        jt: 0,
                        jf: 0,
                        k: distance as u32,
                    })
                }
            })
            .collect()
    }
}
