//! Programs of some hundred bytes, complete and static, made here byte by byte.

/// What a tiny program does.
#[derive(Debug, Clone, Copy)]
pub enum Tiny {
    /// Exits with [`RAN`].
    Exit,
    /// Exits with [`RAN`] when its effective uid is 0, otherwise with [`RAN`] + 1.
    IsRoot,
}

/// The status by which a tiny program says that it ran.
pub const RAN: i32 = 42;

const BASE: u64 = 0x40_0000;
const HEADERS: u64 = 64 + 56;

/// The file's bytes: an ELF header, one loadable segment, the code.
#[must_use]
pub fn program(what: Tiny) -> Vec<u8> {
    let code: &[u8] = match what {
        // mov edi, 42; mov eax, 60; syscall
        Tiny::Exit => &[0xbf, 42, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05],
        // mov eax, 107 (geteuid); syscall; xor edi, edi; test eax, eax; setne dil; add edi, 42; mov eax, 60; syscall
        Tiny::IsRoot => &[
            0xb8, 107, 0, 0, 0, 0x0f, 0x05, 0x31, 0xff, 0x85, 0xc0, 0x40, 0x0f, 0x95, 0xc7, 0x83, 0xc7, 42,
            0xb8, 60, 0, 0, 0, 0x0f, 0x05,
        ],
    };
    let size = HEADERS + code.len() as u64;
    let mut file = Vec::new();
    file.extend([0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    half(&mut file, 2); // executable
    half(&mut file, 62); // x86-64
    file.extend(1_u32.to_le_bytes());
    long(&mut file, BASE + HEADERS); // entry
    long(&mut file, 64); // program headers
    long(&mut file, 0);
    file.extend(0_u32.to_le_bytes());
    for value in [64, 56, 1, 64, 0, 0] {
        half(&mut file, value);
    }
    file.extend(1_u32.to_le_bytes()); // load
    file.extend(5_u32.to_le_bytes()); // read, execute
    for value in [0, BASE, BASE, size, size, 0x1000] {
        long(&mut file, value);
    }
    file.extend(code);
    file
}

/// The position of the code in the file.
#[must_use]
pub fn entry_offset() -> usize {
    usize::try_from(HEADERS).unwrap_or(usize::MAX)
}
